// The verdicts that recommend something, in words, each with its runner-up. Which of them holds:
// tuner/choose.cpp.
#pragma once

#include "tuner/contest.h"

namespace moetune {

// chosen: better than the default beyond doubt.
Recommendation replaced(const Contest& contest, const Contender& chosen);
// best: better beyond doubt, but so little that rule 4 prefers what needs no change.
Recommendation too_little(const Contest& contest, const Contender& best);
// Nothing is better beyond doubt: the default stays, or the verdict is indeterminate.
Recommendation default_stays(const Contest& contest);
// The default does not compete: the best of the rest.
Recommendation without_default(const Contest& contest);

}  // namespace moetune
