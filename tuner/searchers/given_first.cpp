#include "tuner/searchers/given_first.h"

#include <utility>

namespace moetune {

GivenFirstSearcher::GivenFirstSearcher(std::vector<Configuration> given, std::unique_ptr<Searcher> then)
    : given_(std::move(given)), then_(std::move(then)) {}

std::optional<Configuration> GivenFirstSearcher::ask() {
  while (next_ < given_.size()) {
    const Configuration& configuration = given_[next_++];
    if (known_.insert(configuration).second) return configuration;
  }
  return then_ ? then_->ask() : std::nullopt;
}

void GivenFirstSearcher::tell(const Trial& trial) {
  known_.insert(trial.configuration);
  if (then_) then_->tell(trial);  // so that it neither asks for it again nor ignores what it teaches
}

}  // namespace moetune
