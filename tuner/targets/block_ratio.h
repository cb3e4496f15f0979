// A ratio of sums over positions of a text, with its 95 % interval. Neighbouring positions are alike, so an
// interval that took each for an independent draw would be too narrow: positions are cut into blocks of
// neighbours, and the blocks are what is taken as independent. Start at block_ratio().
#pragma once

#include <cstdint>
#include <span>

namespace moetune {

struct RatioInterval {
  double value = 0.0;  // sum of numerators / sum of denominators
  double low = 0.0;
  double high = 0.0;
};

// Ratio estimator over blocks of `block` consecutive positions (the last may be shorter), with Student's t at
// one less than the number of blocks (Cochran, Sampling Techniques, ch. 6). One block alone gives an infinite
// interval.
RatioInterval block_ratio(std::span<const double> numerators, std::span<const double> denominators,
                          std::int64_t block);
// The same with every denominator 1: a mean.
RatioInterval block_mean(std::span<const double> values, std::int64_t block);

}  // namespace moetune
