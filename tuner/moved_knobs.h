// Which knobs act otherwise than they did when a profile was made? Two configurations that were measured then
// and again now differ in a few knobs; when their ratio changed, one of these knobs acts otherwise. What
// makes everything slower alike moves no knob. Start at moved_knobs(); a pure function.
#pragma once

#include <string>
#include <vector>

#include "tuner/nightly_check.h"

namespace moetune {

struct MovedKnobs {
  std::vector<std::string> names;    // sorted; empty: the effects are what they were
  std::vector<std::string> reasons;  // one for each pair whose ratio changed, in words
  int pairs_compared = 0;            // that have rounds enough of both nights; 0: no effect can be judged
};

// The ratio of a pair changed when the interval of the change lies beyond half the threshold, on either side.
// The knobs in which such a pair differs are suspects, but for those that are the only difference of a pair
// whose ratio is known and stayed within the threshold. A configuration that fails now makes suspects of the
// knobs in which it differs from the default. threshold: as for judge_nightly().
MovedKnobs moved_knobs(const std::vector<NightlyPoint>& points, const Objective& objective, double threshold);

}  // namespace moetune
