#include "tuner/contest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace moetune {

Contest::Contest(const ChoiceInput& asked, const FinalRound* final_round)
    : input(asked),
      objective(asked.objectives.front()),
      round(final_round),
      all(contenders(asked, final_round)) {
  for (const Contender& contender : all) {
    if (contender.is_default) default_one = &contender;
    if (contender.acceptable && (round == nullptr || contender.measured_again))
      acceptable.push_back(&contender);
  }
}

std::string Contest::named(const Contender& contender) const {
  return fmt::format("{}: {}", changes_text(contender, input.default_configuration),
                     measured_text(contender, objective));
}

std::string Contest::in_turns() const {
  if (round == nullptr) return "";
  return fmt::format(", measured {}{} times in fresh processes",
                     round->finalists.size() > 1 ? "in turns " : "again ", round->passes);
}

const Contender& best_of(const Contenders& some) {
  return **std::min_element(some.begin(), some.end(), [](const Contender* a, const Contender* b) {
    return a->value != b->value ? a->value < b->value : a->trial->number < b->trial->number;
  });
}

bool is_as_good(const Contender& contender, const Contender& best) {
  return contender.value <= best.value + as_good * std::abs(best.value);
}

// Rule 4.
const Contender& simplest_of_the_best(const Contenders& some) {
  const Contender& best = best_of(some);
  Contenders near;
  for (const Contender* contender : some)
    if (is_as_good(*contender, best)) near.push_back(contender);
  return **std::min_element(near.begin(), near.end(), [](const Contender* a, const Contender* b) {
    if (a->changes != b->changes) return a->changes < b->changes;
    return a->value != b->value ? a->value < b->value : a->trial->number < b->trial->number;
  });
}

}  // namespace moetune
