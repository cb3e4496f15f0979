// Why nothing can be recommended, and what comes nearest.
#pragma once

#include <optional>

#include "tuner/contest.h"

namespace moetune {

// Empty: something can be.
std::optional<Recommendation> no_recommendation(const Contest& contest);

// Nothing acceptable keeps the service level, which is required.
bool misses_required_slo(const Contest& contest);

}  // namespace moetune
