// By how much a series lies beside zero, or beside another one, from ranks alone. Start at
// middle_of_differences().
//
// For differences that are as likely to err upwards as downwards (those of pairs that met the same conditions
// in both orders are) Wilcoxon's signed-rank statistic has an exact distribution, whatever their shape. Its
// interval needs two thirds of the samples that the order statistics of statistics.h need for the same width:
// they know nothing of a symmetry. Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, Nonparametric
// Statistical Methods, ch. 3 and 4.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tuner/statistics.h"

namespace moetune {

struct RankEstimate {
  double value = 0.0;
  std::optional<Interval> interval;  // empty: too few samples for that confidence (at 95 % of pairs: below 6)
  // Neighbours are so alike that ranks have no interval: this one reaches from either end of all differences
  // as far again as they spread.
  bool is_beyond_ranks = false;
};

// Median of all means of two differences (each with itself included): Hodges and Lehmann's estimate of where
// their middle is. correlation_time: how many neighbours tell as much as one independent sample, at least 1;
// the interval grows with its root. At least one difference, all finite, otherwise std::invalid_argument.
RankEstimate middle_of_differences(std::span<const double> differences, double confidence = usual_confidence,
                                   double correlation_time = 1.0);

// By how much `now` lies above `before` where the two were not taken in pairs: median of all differences
// between one of each, with the interval of Mann and Whitney's statistic. correlation_time: as above, of both
// series together. Both of at least one value, all finite, otherwise std::invalid_argument.
RankEstimate shift_between(std::span<const double> before, std::span<const double> now,
                           double confidence = usual_confidence, double correlation_time = 1.0);

// The largest c for which a signed-rank sum of `count` differences is below c with a probability of at most
// `doubt`: so many of the smallest means of two may be passed. 0: none.
std::size_t signed_ranks_to_spare(std::size_t count, double doubt);
// The same of the pairs (one of `before`, one of `now`) that Mann and Whitney count.
std::size_t pairs_to_spare(std::size_t before, std::size_t now, double doubt);

}  // namespace moetune
