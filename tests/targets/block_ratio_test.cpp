// Intervals of means over correlated positions.
#include "tuner/targets/block_ratio.h"

#include "tuner/student_t.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(BlockRatio, StudentQuantilesMatchTables) {
  EXPECT_NEAR(student_t_975(1), 12.706, 1e-3);
  EXPECT_NEAR(student_t_975(10), 2.228, 1e-3);
  EXPECT_NEAR(student_t_975(11), 2.201, 1e-3);
  EXPECT_NEAR(student_t_975(30), 2.042, 1e-3);
  EXPECT_NEAR(student_t_975(127), 1.979, 1e-3);
}

TEST(BlockRatio, MeanOfFourBlocksByHand) {
  // Block means 1, 3, 1, 3: mean 2, standard error sqrt(4/3 / 4), t(3) = 3.1824.
  const std::vector<double> values = {0, 2, 2, 4, 1, 1, 3, 3};
  const RatioInterval mean = block_mean(values, 2);
  EXPECT_DOUBLE_EQ(mean.value, 2.0);
  EXPECT_NEAR(mean.high - mean.value, 3.1824 * std::sqrt(4.0 / 3.0 / 4.0), 1e-3);
  EXPECT_NEAR(mean.value - mean.low, mean.high - mean.value, 1e-12);
}

TEST(BlockRatio, ConstantRatioHasNoSpread) {
  const std::array numerators = {1.0, 2.0, 3.0, 4.0};
  const std::array denominators = {2.0, 4.0, 6.0, 8.0};
  const RatioInterval ratio = block_ratio(numerators, denominators, 1);
  EXPECT_DOUBLE_EQ(ratio.value, 0.5);
  EXPECT_NEAR(ratio.high, 0.5, 1e-12);
}

TEST(BlockRatio, OneBlockKnowsNothing) { EXPECT_TRUE(std::isinf(block_mean(std::array{1.0, 2.0}, 4).high)); }

// Positions that repeat themselves 16 times carry a sixteenth of the information: blocks see it, single
// positions do not.
TEST(BlockRatio, BlocksWidenTheIntervalOfAlikeNeighbours) {
  std::vector<double> values;
  for (int i = 0; i < 64; ++i) values.insert(values.end(), 16, (i * 7919 % 64) / 64.0);
  const auto width = [](const RatioInterval& ratio) { return ratio.high - ratio.low; };
  EXPECT_GT(width(block_mean(values, 16)), 3.5 * width(block_mean(values, 1)));
}

}  // namespace
}  // namespace moetune
