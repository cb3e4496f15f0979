// What the repeats of a read rate come to. How fast this machine reads is its own affair.
#include "engine/probe.h"

#include <array>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(ReadRate, IsTheBestOfItsRepeatsAndSaysHowFarTheyLayApart) {
  const ReadRate rate = read_rate_of(std::array{18.0, 20.0, 15.0, 19.0});
  EXPECT_DOUBLE_EQ(rate.gb_per_s, 20.0);
  EXPECT_DOUBLE_EQ(rate.spread, 0.25);
  EXPECT_DOUBLE_EQ(read_rate_of(std::array{3.0, 3.0}, 0.4).spread, 0.6) << "alike, as others had the cores";
  EXPECT_DOUBLE_EQ(read_rate_of({}).gb_per_s, 0.0);
  EXPECT_DOUBLE_EQ(read_rate_of(std::array{0.0}).spread, 0.0);
}

TEST(ReadRate, OfThisMachineIsMeasuredWithItsSpread) {
  const ReadRate rate = measured_read_rate(1);
  EXPECT_GT(rate.gb_per_s, 0.0);
  EXPECT_GE(rate.spread, 0.0);
  EXPECT_LT(rate.spread, 1.0);
}

}  // namespace
}  // namespace moetune
