// How far another study of the same may choose from this one.
#pragma once

#include <optional>

#include "tuner/choose.h"

namespace moetune {

// Recommendation::tolerance. Empty: nothing is recommended, or the round had too few passes to tell.
std::optional<double> choice_tolerance(const Recommendation& recommendation, const FinalRound& round,
                                       const ChoiceInput& input);

}  // namespace moetune
