#include "tuner/searchers/after_failed_default.h"

#include <utility>

#include "tuner/searchers/given_first.h"

namespace moetune {

AfterFailedDefaultSearcher::AfterFailedDefaultSearcher(Configuration default_configuration,
                                                       std::function<std::vector<Configuration>()> given,
                                                       std::unique_ptr<Searcher> then)
    : default_(std::move(default_configuration)), given_(std::move(given)), then_(std::move(then)) {}

std::optional<Configuration> AfterFailedDefaultSearcher::ask() { return then_->ask(); }

void AfterFailedDefaultSearcher::tell(const Trial& trial) {
  if (given_ && trial.configuration == default_ && trial.outcome != Outcome::ok)
    then_ = std::make_unique<GivenFirstSearcher>(std::exchange(given_, nullptr)(), std::move(then_));
  then_->tell(trial);
}

}  // namespace moetune
