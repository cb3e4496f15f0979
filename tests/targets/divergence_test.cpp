// Divergence of two distributions, against values worked out by hand.
#include "tuner/targets/divergence.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Divergence, EqualLogitsDivergeByNothing) {
  const std::array logits = {1.0F, -2.0F, 0.5F};
  const PositionDivergence result = compare_position(logits, logits, 1);
  EXPECT_EQ(result.kl, 0.0);
  EXPECT_TRUE(result.same_top);
  EXPECT_EQ(result.surprise_change, 0.0);
  EXPECT_EQ(result.difference_power, 0.0);
  EXPECT_DOUBLE_EQ(result.reference_power, 5.25);
}

TEST(Divergence, MatchesTheDefinition) {
  // Probabilities 1/2, 1/4, 1/4 against 1/4, 1/2, 1/4.
  const auto log2f = std::log(2.0F);
  const std::array reference = {log2f, 0.0F, 0.0F};
  const std::array logits = {0.0F, log2f, 0.0F};
  const PositionDivergence result = compare_position(reference, logits, 0);
  EXPECT_NEAR(result.kl, 0.25 * std::log(2.0), 1e-7);  // 1/2 log 2 + 1/4 log 1/2 + 0
  EXPECT_FALSE(result.same_top);
  EXPECT_NEAR(result.surprise_change, std::log(2.0), 1e-7);  // the next token became half as likely
}

TEST(Divergence, AShiftOfAllLogitsChangesNothing) {
  const std::array reference = {3.0F, 1.0F, -1.0F};
  const std::array shifted = {103.0F, 101.0F, 99.0F};
  EXPECT_NEAR(compare_position(reference, shifted, 2).kl, 0.0, 1e-12);
  EXPECT_NEAR(compare_position(reference, shifted, 2).surprise_change, 0.0, 1e-12);
}

TEST(Divergence, LargeLogitsDoNotOverflow) {
  const std::array reference = {3000.0F, -3000.0F};
  const std::array logits = {2999.0F, -3000.0F};
  EXPECT_NEAR(kl_divergence(reference, logits), 0.0, 1e-12);
}

TEST(Divergence, WhatIsNotFiniteIsNotANumber) {
  const std::array reference = {1.0F, 2.0F, 3.0F};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (std::size_t place = 0; place < 3; ++place) {
      std::array logits = reference;
      logits[place] = bad;
      EXPECT_TRUE(std::isnan(kl_divergence(reference, logits))) << bad << " at " << place;
    }
}

TEST(Divergence, TiesGoToTheLowerToken) {
  EXPECT_EQ(most_likely(std::array{1.0F, 2.0F, 2.0F}), 1);
  EXPECT_EQ(most_likely(std::array{2.0F, 2.0F, 2.0F}), 0);
}

}  // namespace
}  // namespace moetune
