#include "tuner/choice_tolerance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tuner/contest.h"

namespace moetune {
namespace {

// How far the true value of what another study recommends may lie from this one's: a finalist passes for the
// best as long as its interval reaches there.
std::optional<double> tolerance_of(const Recommendation& recommendation, const FinalRound& round,
                                   const Objective& objective) {
  if (!recommendation.trial) return std::nullopt;
  const auto better_end = [&](const Measurement& ratio) {
    return objective.maximize ? *ratio.high : *ratio.low;
  };
  const Finalist* chosen = round.find(*recommendation.trial);
  if (chosen == nullptr) return std::nullopt;
  if (chosen->ratio) {
    if (!chosen->ratio->low || !chosen->ratio->high) return std::nullopt;
    return as_good + (*chosen->ratio->high - *chosen->ratio->low) / chosen->ratio->value;
  }
  double most = 0.0;  // of the first finalist: how much better another one may be
  for (const Finalist& finalist : round.finalists) {
    if (!finalist.ratio) continue;
    if (!finalist.ratio->low || !finalist.ratio->high) return std::nullopt;
    const double end = better_end(*finalist.ratio);
    most = std::max(most, objective.maximize ? end - 1.0 : 1.0 - end);
  }
  return as_good + most;
}

// By how much the search still improved in its second half (0.04: the best acceptable value fell by 4 %):
// what another search of the same length may have found sooner, or not yet.
double still_found(const ChoiceInput& input) {
  std::vector<Contender> all = contenders(input, nullptr);
  std::erase_if(all, [](const Contender& one) { return !one.acceptable; });
  if (all.empty()) return 0.0;
  double best = all.front().search_value;
  double best_of_half = best;
  for (const Contender& one : all) {
    best = std::min(best, one.search_value);
    if (2 * one.trial->number < std::ssize(input.trials))
      best_of_half = std::min(best_of_half, one.search_value);
  }
  return best_of_half == 0.0 ? 0.0 : std::abs(best_of_half - best) / std::abs(best_of_half);
}

}  // namespace

std::optional<double> choice_tolerance(const Recommendation& recommendation, const FinalRound& round,
                                       const ChoiceInput& input) {
  std::optional<double> tolerance = tolerance_of(recommendation, round, input.objectives.front());
  if (tolerance) *tolerance += still_found(input);
  return tolerance;
}

}  // namespace moetune
