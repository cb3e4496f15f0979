#include "tuner/rank_shift.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tuner/support/made_up_series.h"
#include "tuner/autocorrelation.h"
#include "tuner/counter_rng.h"

namespace moetune {
namespace {

// Critical values of the signed-rank test, two-sided 5 % and 1 % (Wilcoxon and Wilcox 1964, table 2): the
// largest sum that is still significant; so one more may be spared.
TEST(SignedRanks, EqualPublishedTables) {
  const std::vector<std::size_t> at_five{0,  2,  3,  5,  8,  10, 13, 17,
                                         21, 25, 29, 34, 40, 46, 52};  // n = 6 .. 20
  for (std::size_t n = 6; n <= 20; ++n) EXPECT_EQ(signed_ranks_to_spare(n, 0.025), at_five[n - 6] + 1) << n;
  EXPECT_EQ(signed_ranks_to_spare(5, 0.025), 0U);
  EXPECT_EQ(signed_ranks_to_spare(8, 0.005), 1U);
  EXPECT_EQ(signed_ranks_to_spare(9, 0.005), 2U);
  EXPECT_EQ(signed_ranks_to_spare(7, 0.005), 0U);
}

// Mann and Whitney's own U at two-sided 5 % for two series of the same length.
TEST(MannWhitneyPairs, EqualPublishedTables) {
  EXPECT_EQ(pairs_to_spare(3, 3, 0.025), 0U);
  EXPECT_EQ(pairs_to_spare(4, 4, 0.025), 0U + 1);
  EXPECT_EQ(pairs_to_spare(5, 5, 0.025), 2U + 1);
  EXPECT_EQ(pairs_to_spare(10, 10, 0.025), 23U + 1);
  EXPECT_EQ(pairs_to_spare(5, 10, 0.025), 8U + 1);
  EXPECT_EQ(pairs_to_spare(10, 5, 0.025), 8U + 1);
  EXPECT_EQ(pairs_to_spare(20, 20, 0.025), 127U + 1);
}

TEST(SignedRanks, TheNormalApproximationGoesOnWhereCountingEnds) {
  // 60 is counted, 61 is not; the step between them is that of their neighbours.
  const auto spared = [](std::size_t n) { return static_cast<double>(signed_ranks_to_spare(n, 0.025)); };
  EXPECT_NEAR(spared(61) - spared(60), spared(60) - spared(59), 1.5);
  const auto pairs = [](std::size_t n) { return static_cast<double>(pairs_to_spare(n, n, 0.025)); };
  EXPECT_NEAR(pairs(61) - pairs(60), pairs(60) - pairs(59), 2.5);
}

TEST(MiddleOfDifferences, IsTheMedianOfMeansOfTwo) {
  const RankEstimate few =
      middle_of_differences(std::vector<double>{1.0, 2.0, 6.0});  // means 1 1.5 2 3.5 4 6
  EXPECT_EQ(few.value, 2.75);
  EXPECT_FALSE(few.interval.has_value());
  const RankEstimate six = middle_of_differences(std::vector<double>{1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(six.interval.has_value());
  EXPECT_EQ(six.interval->low, 1.0);
  EXPECT_EQ(six.interval->high, 6.0);
}

TEST(MiddleOfDifferences, CorrelatedOnesHaveAWiderInterval) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(i % 7);
  const RankEstimate free = middle_of_differences(values);
  const RankEstimate bound = middle_of_differences(values, usual_confidence, 4.0);
  EXPECT_NEAR(bound.interval->high - bound.interval->low, 2.0 * (free.interval->high - free.interval->low),
              0.5);
  EXPECT_FALSE(middle_of_differences(values, usual_confidence, 40.0).interval.has_value())
      << "all of them as one";
}

TEST(ShiftBetween, CorrelatedNeighboursWidenIt) {
  std::vector<double> before;
  std::vector<double> now;
  for (int i = 0; i < 40; ++i) {
    before.push_back(i * 37 % 41);
    now.push_back(3.0 + i * 29 % 43);
  }
  const auto width = [&](double correlation_time) {
    const Interval interval = shift_between(before, now, usual_confidence, correlation_time).interval.value();
    return interval.high - interval.low;
  };
  EXPECT_NEAR(width(4.0), 2.0 * width(1.0), 0.1 * width(4.0));
  EXPECT_EQ(width(0.5), width(1.0)) << "samples tell no more than they are";
  EXPECT_FALSE(shift_between(before, now, usual_confidence, 40.0).interval.has_value())
      << "all of them as one";
}

// Two values in two halves are worth two independent samples: enough to tell what is far from both.
TEST(RankEstimates, OfAlikeNeighboursReachBeyondAllDifferences) {
  std::vector<double> halves(20, 5.0);
  std::fill(halves.begin() + 10, halves.end(), 6.0);
  const RankEstimate middle = middle_of_differences(halves, usual_confidence, 10.0);
  ASSERT_TRUE(middle.interval.has_value());
  EXPECT_TRUE(middle.is_beyond_ranks);
  EXPECT_EQ(middle.interval->low, 4.0);
  EXPECT_EQ(middle.interval->high, 7.0);
  const std::vector<double> before(20, 0.0);
  const RankEstimate shift = shift_between(before, halves, usual_confidence, 10.0);
  ASSERT_TRUE(shift.interval.has_value());
  EXPECT_EQ(shift.interval->low, 4.0);
  EXPECT_EQ(shift.interval->high, 7.0);
  EXPECT_FALSE(middle_of_differences(halves).is_beyond_ranks);
}

TEST(RankEstimates, OfAlikeNeighboursHoldTheTruth) {
  constexpr std::uint32_t series = 1000;
  constexpr int count = 20;
  for (const double correlation : {0.8, 0.95}) {
    int beyond = 0;
    int held = 0;
    for (std::uint32_t i = 0; i < series; ++i) {
      const std::vector<double> before = made_up_series(2 * i, count, correlation);
      const std::vector<double> now = made_up_series(2 * i + 1, count, correlation);
      const double time = correlation_time(now, 1.5);
      const double time_of_both = 0.5 * (correlation_time(before, 1.5) + time);
      for (const RankEstimate& found : {middle_of_differences(now, usual_confidence, time),
                                        shift_between(before, now, usual_confidence, time_of_both)}) {
        if (!found.is_beyond_ranks) continue;
        ++beyond;
        held += found.interval->low <= 0.0 && 0.0 <= found.interval->high ? 1 : 0;
      }
    }
    EXPECT_GT(beyond, 300) << correlation;
    EXPECT_GE(held, 0.98 * beyond) << correlation;
  }
}

TEST(RankEstimates, RefuseWhatIsNoNumber) {
  const std::vector<double> bad{1.0, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(middle_of_differences(bad), std::invalid_argument);
  EXPECT_THROW(middle_of_differences({}), std::invalid_argument);
  EXPECT_THROW(shift_between(bad, std::vector<double>{1.0}), std::invalid_argument);
  EXPECT_THROW(shift_between(std::vector<double>{1.0}, {}), std::invalid_argument);
}

// Of skewed times whose difference is symmetric all the same, as pairs from one machine have.
TEST(RankEstimates, CoverAsOftenAsTheySay) {
  constexpr int series = 1000;
  for (const std::size_t count : {6, 9, 24, 80}) {
    int paired = 0;
    int unpaired = 0;
    for (std::uint32_t i = 0; i < series; ++i) {
      RngSequence random(CounterRng(77, RngStage::bootstrap, i));
      const auto skewed = [&] { return -std::log1p(-random.uniform()); };
      std::vector<double> before;
      std::vector<double> now;
      std::vector<double> differences;
      for (std::size_t n = 0; n < count; ++n) {
        before.push_back(skewed());
        now.push_back(0.3 + skewed());
        differences.push_back(now.back() - before.back());
      }
      const auto holds = [](const RankEstimate& found) {
        return found.interval->low <= 0.3 && 0.3 <= found.interval->high;
      };
      paired += holds(middle_of_differences(differences)) ? 1 : 0;
      unpaired += holds(shift_between(before, now)) ? 1 : 0;
    }
    EXPECT_GE(paired, 0.935 * series) << count;
    EXPECT_GE(unpaired, 0.935 * series) << count;
  }
}

}  // namespace
}  // namespace moetune
