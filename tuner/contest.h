// Who competes for the recommendation, and the words about them that several verdicts share. Start at
// Contest.
#pragma once

#include <string>
#include <vector>

#include "tuner/choose.h"
#include "tuner/contender.h"
#include "tuner/final_round.h"

namespace moetune {

constexpr double as_good = 0.01;  // within 1 % of the best, fewer changes count more

using Contenders = std::vector<const Contender*>;

struct Contest {
  const ChoiceInput& input;
  const Objective& objective;  // the first one
  const FinalRound* round;     // null: as the search measured it
  std::vector<Contender> all;
  Contenders acceptable;                   // those that compete: rules 0 and 2 of choose()
  const Contender* default_one = nullptr;  // null: could not be measured

  // Input and round must outlive the contest.
  Contest(const ChoiceInput& input, const FinalRound* round);
  Contest(const Contest&) = delete;  // acceptable points into all
  Contest& operator=(const Contest&) = delete;

  bool default_competes() const { return default_one != nullptr && default_one->acceptable; }

  // "top_k 7: 0.41 ms per token (0.40-0.42)"
  std::string named(const Contender& contender) const;
  // ", measured in turns 9 times in fresh processes": how the figures were made, where that is worth saying.
  std::string in_turns() const;
};

// By the first objective's value, then by the trial's number. some: at least one.
const Contender& best_of(const Contenders& some);
bool is_as_good(const Contender& contender, const Contender& best);
// Rule 4 of choose(). some: at least one.
const Contender& simplest_of_the_best(const Contenders& some);

}  // namespace moetune
