#include "tuner/paired_ratio.h"

#include <map>
#include <vector>

#include "tuner/statistics.h"

namespace moetune {

std::optional<Measurement> paired_ratio(std::int64_t trial, std::int64_t reference, std::span<const Trial> measured_again,
                                        const Objective& objective) {
  std::map<std::int64_t, double> values;      // by pass
  std::map<std::int64_t, double> references;
  if (measured_again.empty() || !measured_again.back().turn) return std::nullopt;
  const FinalTurn& newest = *measured_again.back().turn;
  for (const Trial& turn : measured_again) {
    const bool is_of_round = turn.turn && turn.turn->after == newest.after && turn.turn->finalists == newest.finalists;
    const auto found = turn.metrics.find(objective.metric);
    if (!is_of_round || turn.outcome != Outcome::ok || found == turn.metrics.end()) continue;
    if (turn.number == trial) values[turn.turn->pass] = found->second.value;
    if (turn.number == reference) references[turn.turn->pass] = found->second.value;
  }
  std::vector<double> ratios;
  for (const auto& [pass, value] : values)
    if (const auto other = references.find(pass); other != references.end() && other->second > 0.0)
      ratios.push_back(value / other->second);
  if (ratios.empty()) return std::nullopt;
  Measurement ratio;
  ratio.value = median(ratios);
  if (const auto interval = median_interval(ratios)) {
    ratio.low = interval->low;
    ratio.high = interval->high;
  }
  ratio.n = std::ssize(ratios);
  ratio.processes = std::ssize(ratios);
  return ratio;
}

}  // namespace moetune
