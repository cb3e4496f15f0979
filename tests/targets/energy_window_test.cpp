// Energy per token from a counter that jumps: invented readings.
#include "tuner/targets/energy_window.h"

#include <cmath>

#include <gtest/gtest.h>

namespace moetune {
namespace {

// Runs of 10 tokens and 0.04 s at 2 J a token on a counter that is brought up to date every 0.1 s.
EnergyWindow window_of(int runs) {
  EnergyWindow window;
  const double watts = 2.0 * 10 / 0.04;
  const auto counter = [&](double seconds) { return 1e6 + watts * std::floor(seconds / 0.1 + 1e-9) * 0.1; };
  window.add(counter(0.03), 0);
  for (int run = 1; run <= runs; ++run) window.add(counter(0.03 + run * 0.04), 10);
  return window;
}

TEST(EnergyWindow, HoldsTheTruthInItsInterval) {
  for (const int runs : {20, 33, 50, 500}) {
    const auto measured = window_of(runs).joules_per_token();
    ASSERT_TRUE(measured) << runs;
    ASSERT_TRUE(measured->low && measured->high) << runs;
    EXPECT_LE(*measured->low, 2.0) << runs;
    EXPECT_GE(*measured->high, 2.0) << runs;
    EXPECT_LE(*measured->low, measured->value) << runs;
    EXPECT_GE(*measured->high, measured->value) << runs;
    EXPECT_LE(measured->n, runs * 10) << runs;
  }
  EXPECT_NEAR(window_of(500).joules_per_token()->value, 2.0, 0.01);
}

TEST(EnergyWindow, IsEmptyWhileTheCounterHasHardlyMoved) {
  const EnergyWindow window = window_of(10);
  EXPECT_FALSE(window.joules_per_token());
  EXPECT_EQ(window.reason(), "the GPU's energy counter moved in 4 runs of the window, fewer than 6");
  EXPECT_FALSE(EnergyWindow().joules_per_token());
}

// A run longer than the counter's period moves it every time.
TEST(EnergyWindow, LongRunsHaveAWideInterval) {
  EnergyWindow window;
  window.add(100.0, 0);
  for (int run = 1; run <= 6; ++run) window.add(100.0 + run * 30.0, 10);
  const auto measured = window.joules_per_token();
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->value, 3.0);
  EXPECT_EQ(measured->n, 50);
  EXPECT_EQ(*measured->low, 2.5);
  EXPECT_EQ(*measured->high, 3.75);
}

}  // namespace
}  // namespace moetune
