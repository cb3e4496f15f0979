#include "tuner/searchers/exhaustive.h"

namespace moetune {

std::optional<Configuration> ExhaustiveSearcher::ask() {
  while (next_ < table_.size() && !table_.is_open(next_)) ++next_;
  if (next_ == table_.size()) return std::nullopt;
  table_.take(next_);
  return table_.configuration(next_);
}

void ExhaustiveSearcher::tell(const Trial& trial) {
  if (const auto position = table_.find(trial.configuration)) table_.take(*position);
}

}  // namespace moetune
