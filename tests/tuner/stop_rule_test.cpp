#include "tuner/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {

TEST(StopRule, ThreeQuietSamplesAreNotTen) {
  StopRule stop({.relative_width = 0.01, .at_least = 10});
  for (int i = 0; i < 9; ++i) stop.add(100.0, 0.001);
  EXPECT_FALSE(stop.done());
  EXPECT_EQ(stop.reason(), "");
  stop.add(100.0, 0.001);
  EXPECT_TRUE(stop.done());
  EXPECT_EQ(stop.reason(), "interval narrow");
  EXPECT_EQ(stop.count(), 10);
}

TEST(StopRule, NoiseKeepsItGoingUntilTheIntervalIsNarrow) {
  StopRule stop({.relative_width = 0.02, .at_least = 8, .seconds = 1e9});
  RngSequence random(CounterRng(1, RngStage::bootstrap));
  while (!stop.done() && stop.count() < 10000) stop.add(100.0 + 20.0 * random.uniform(), 0.001);
  EXPECT_EQ(stop.reason(), "interval narrow");
  EXPECT_GT(stop.count(), 50);
  const auto interval = stop.interval();
  ASSERT_TRUE(interval.has_value());
  EXPECT_LE(interval->high - interval->low, 0.02 * stop.median());
}

TEST(StopRule, TimeAndNumberEndItToo) {
  StopRule by_time({.relative_width = 1e-9, .at_least = 4, .seconds = 1.0});
  for (int i = 0; !by_time.done(); ++i) by_time.add(i, 0.3);
  EXPECT_EQ(by_time.reason(), "time spent");
  EXPECT_EQ(by_time.count(), 4);  // time is not spent before the least number of samples
  StopRule by_number({.relative_width = 1e-9, .at_least = 4, .at_most = 7});
  for (int i = 0; !by_number.done(); ++i) by_number.add(i, 0.0);
  EXPECT_EQ(by_number.reason(), "samples enough");
  EXPECT_EQ(by_number.count(), 7);
}

TEST(StopRule, TooFewSamplesHaveNoInterval) {
  StopRule stop({.relative_width = 0.5, .at_least = 2, .seconds = 1e9});
  for (int i = 0; i < 5; ++i) stop.add(1.0, 0.0);
  EXPECT_FALSE(stop.interval().has_value());
  EXPECT_FALSE(stop.done());  // an interval that cannot be given is not narrow
}

TEST(StopRule, RefusesWhatIsNoNumber) {
  StopRule stop({});
  EXPECT_THROW(stop.add(std::numeric_limits<double>::quiet_NaN(), 0.0), std::invalid_argument);
  EXPECT_THROW(stop.add(std::numeric_limits<double>::infinity(), 0.0), std::invalid_argument);
}

double normal(RngSequence& random) {
  const double radius = std::sqrt(-2.0 * std::log1p(-random.uniform()));
  return radius * std::cos(6.283185307179586 * random.uniform());
}

// Looking several times and stopping at the first narrow interval costs confidence; this is how much.
TEST(StopRule, IntervalsStillCoverAfterItStopped) {
  constexpr int series = 2000;
  for (const double noise : {0.01, 0.05, 0.2}) {
    int covered = 0;
    for (int i = 0; i < series; ++i) {
      StopRule stop({.relative_width = 0.05, .at_least = 16, .at_most = 4000, .seconds = 1e9});
      RngSequence random(CounterRng(7, RngStage::bootstrap, static_cast<std::uint32_t>(i)));
      while (!stop.done()) stop.add(std::exp(noise * normal(random)), 0.0);
      const auto interval = stop.interval();
      ASSERT_TRUE(interval.has_value());
      covered += interval->low <= 1.0 && 1.0 <= interval->high ? 1 : 0;
    }
    EXPECT_GE(covered, 0.93 * series) << "noise " << noise;
  }
}

TEST(WarmUp, EndsWhenTheLevelDoesNotMoveAnyMore) {
  // Starts at three times the steady value and comes down by a tenth with every sample, under 1 % of noise.
  std::vector<double> left;
  for (std::uint32_t i = 0; i < 201; ++i) {
    WarmUp warm_up(5, 1000);
    RngSequence random(CounterRng(3, RngStage::bootstrap, i));
    double excess = 2.0;
    while (!warm_up.steady()) {
      warm_up.add((1.0 + excess) * (1.0 + 0.01 * normal(random)));
      excess *= 0.9;
    }
    EXPECT_EQ(warm_up.reason(), "steady");
    EXPECT_LT(warm_up.count(), 150);
    left.push_back(excess);
  }
  EXPECT_LT(median(left), 0.02);
  EXPECT_LT(quantile(left, 0.95), 0.06);
}

TEST(WarmUp, NoiseAloneIsSteadyAtOnce) {
  int first_look = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    WarmUp warm_up(5, 1000);
    RngSequence random(CounterRng(4, RngStage::bootstrap, i));
    while (!warm_up.steady()) warm_up.add(1.0 + 0.1 * normal(random));
    first_look += warm_up.count() == 10 ? 1 : 0;
  }
  EXPECT_GT(first_look, 160);
}

TEST(WarmUp, IdenticalSamplesAreSteady) {
  WarmUp warm_up(3);
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(warm_up.steady());
    warm_up.add(5.0);
  }
  EXPECT_EQ(warm_up.reason(), "steady");
}

TEST(WarmUp, GivesUpOnADrift) {
  WarmUp warm_up(5, 40);
  for (int i = 0; !warm_up.steady(); ++i) warm_up.add(100.0 - i);
  EXPECT_EQ(warm_up.reason(), "still drifting");
  EXPECT_EQ(warm_up.count(), 40);
}

}  // namespace
}  // namespace moetune
