#include "tuner/searchers/random.h"

#include <algorithm>

#include "tuner/counter_rng.h"

namespace moetune {

RandomSearcher::RandomSearcher(const SearcherInput& input) : table_(input) {
  const CounterRng rng(input.seed, RngStage::random_order);
  std::vector<std::pair<std::uint64_t, std::size_t>> drawn;
  drawn.reserve(table_.size());
  for (std::size_t position = 0; position < table_.size(); ++position)
    drawn.emplace_back(rng.bits(table_.rank(position)), position);
  std::sort(drawn.begin(), drawn.end());
  for (const auto& [draw, position] : drawn) order_.push_back(position);
}

std::optional<Configuration> RandomSearcher::ask() {
  while (next_ < order_.size() && !table_.is_open(order_[next_])) ++next_;
  if (next_ == order_.size()) return std::nullopt;
  table_.take(order_[next_]);
  return table_.configuration(order_[next_]);
}

void RandomSearcher::tell(const Trial& trial) {
  if (const auto position = table_.find(trial.configuration)) table_.take(*position);
}

}  // namespace moetune
