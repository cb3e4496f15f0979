// What changed from one profile to the next: knobs, metrics and the box, as Markdown for a commit or a merge
// request. A pure function.
#pragma once

#include <string>

#include "engine/facts/launch_profile.h"

namespace moetune {

// Of the recommended configurations. Metrics are listed where either profile has them; a change is said to be
// beyond doubt where the two intervals do not overlap.
std::string profile_diff(const LaunchProfile& before, const LaunchProfile& after);

}  // namespace moetune
