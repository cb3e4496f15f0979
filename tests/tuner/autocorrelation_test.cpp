#include "tuner/autocorrelation.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tuner/support/made_up_series.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

TEST(Autocorrelations, OfASeriesByHand) {
  // Mean 2; deviations -1 0 1 0 -1 0 1 0; sum of squares 4.
  const std::vector<double> lags = autocorrelations(std::vector<double>{1, 2, 3, 2, 1, 2, 3, 2}, 4);
  ASSERT_EQ(lags.size(), 5U);
  EXPECT_DOUBLE_EQ(lags[0], 1.0);
  EXPECT_DOUBLE_EQ(lags[1], 0.0);
  EXPECT_DOUBLE_EQ(lags[2], -0.75);
  EXPECT_DOUBLE_EQ(lags[4], 0.5);
  EXPECT_EQ(autocorrelations(std::vector<double>{5, 5, 5}, 9), (std::vector<double>{1, 0, 0}));
}

TEST(CorrelationTime, OfIndependentSamplesIsOneWhereChanceIsAllowed) {
  int ones = 0;
  for (std::uint32_t i = 0; i < 500; ++i)
    ones += correlation_time(made_up_series(i, 50, 0.0), 1.5) == 1.0 ? 1 : 0;
  EXPECT_GE(ones, 430);
}

TEST(CorrelationTime, FindsWhatWasPutIn) {
  // Signs of a normal series with correlation r have (2 / pi) asin r (the arcsine law), summed over its
  // powers.
  for (const double correlation : {0.5, 0.8, 0.9}) {
    double expected = 1.0;
    constexpr int powers = 150;  // 0.9^150 is 1e-7
    for (int lag = 1; lag <= powers; ++lag)
      expected += 2.0 * 2.0 / M_PI * std::asin(std::pow(correlation, lag));
    std::vector<double> times;
    for (std::uint32_t i = 0; i < 101; ++i)
      times.push_back(correlation_time(made_up_series(i, 2000, correlation)));
    EXPECT_NEAR(median(times), expected, 0.15 * expected) << correlation;
  }
}

TEST(CorrelationTime, StaysWithinItsBounds) {
  EXPECT_EQ(correlation_time(std::vector<double>(15, 1.0)), 1.0);
  EXPECT_EQ(correlation_time(std::vector<double>(100, 1.0)), 1.0) << "no noise";
  std::vector<double> drift;
  for (int i = 0; i < 100; ++i) drift.push_back(i);
  EXPECT_GT(correlation_time(drift), 30.0);
  EXPECT_LE(correlation_time(drift), 50.0);
  std::vector<double> alternating;
  for (int i = 0; i < 100; ++i) alternating.push_back(i % 2);
  EXPECT_EQ(correlation_time(alternating), 1.0) << "that neighbours differ is not counted as a gain";
}

}  // namespace
}  // namespace moetune
