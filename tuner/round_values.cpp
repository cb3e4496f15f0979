#include "tuner/round_values.h"

namespace moetune {

std::vector<double> round_values(std::int64_t trial, std::span<const Trial> measured_again,
                                 const std::string& metric) {
  std::vector<double> values;
  if (measured_again.empty() || !measured_again.back().turn) return values;
  const FinalTurn& newest = *measured_again.back().turn;
  for (const Trial& turn : measured_again) {
    const bool is_of_round =
        turn.turn && turn.turn->after == newest.after && turn.turn->finalists == newest.finalists;
    if (!is_of_round || turn.number != trial) continue;
    const auto found = turn.metrics.find(metric);
    // A time of 0 has no logarithm; no clock is that coarse, but a log may say anything.
    if (turn.outcome != Outcome::ok || found == turn.metrics.end() || !(found->second.value > 0.0)) break;
    values.push_back(found->second.value);
  }
  return values;
}

}  // namespace moetune
