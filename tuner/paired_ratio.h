// Two finalists of a final round against each other, whichever of them came first in it: the ratio of their
// values within each pass, so that what both met in that pass divides out. Start at paired_ratio().
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tuner/objective.h"
#include "tuner/trial.h"

namespace moetune {

// Median over the passes of the value of `trial` over that of `reference`, with the distribution-free interval
// of that median (6 passes or more). Only passes of the newest round in which both are ok count; empty: none.
std::optional<Measurement> paired_ratio(std::int64_t trial, std::int64_t reference, std::span<const Trial> measured_again,
                                        const Objective& objective);

}  // namespace moetune
