// Where a series begins to be another one. Start at change_point().
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace moetune {

// Index of the first value behind the likeliest change of level, when chance alone would show such a change in a series of this
// length with a probability of at most `doubt`. By ranks, so that neither outliers nor the shape of the noise matter (Pettitt,
// Applied Statistics 28, 1979); his bound is a cautious one below some 20 values, and values that resemble their neighbours
// make changes of their own. Empty: no change that can be told from noise, or fewer than two values.
std::optional<std::size_t> change_point(std::span<const double> values, double doubt);

}  // namespace moetune
