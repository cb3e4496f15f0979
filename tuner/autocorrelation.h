// How much neighbouring samples resemble each other, and how many independent ones they are worth. Start at
// correlation_time().
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace moetune {

// Fewer samples than this do not show a correlation: the noise of its estimate is a quarter then.
inline constexpr std::size_t fewest_for_correlation = 16;

// Autocorrelation at lags 0 .. most_lag (of at most values.size() - 1), 0 is 1. All 0 beyond lag 0 where the
// values are all the same. O(values x lags). At least one value.
std::vector<double> autocorrelations(std::span<const double> values, std::size_t most_lag);

// How many neighbours, in the order they were taken, tell as much about the median as one independent sample:
// 1 + 2 x the sum of the autocorrelations of "above or below the median", which is what the noise of a median
// depends on, and which outliers do not bend. The sum ends where the sum of two neighbouring lags is not
// positive any more (Geyer, Statistical Science 1992), each lag made larger by what an estimate from few
// samples falls short. 1 where the first lag is no more than half its noise, and below fewest_for_correlation samples.
// Between 1 and values.size().
double correlation_time(std::span<const double> values);

}  // namespace moetune
