#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {

std::vector<double> counting(int count) {
  std::vector<double> values;
  for (int i = count; i > 0; --i) values.push_back(i);
  return values;
}

// 1 .. 400 in an order in which neighbours are as different as can be.
std::vector<double> scattered() {
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(i * 173 % 400 + 1);
  return values;
}

TEST(Median, OfOddAndEvenNumbers) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2.0);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7.0);
}

TEST(Quantile, IsAnOrderStatistic) {
  EXPECT_EQ(quantile(counting(100), 0.99), 99.0);
  EXPECT_EQ(quantile(counting(100), 0.5), 50.0);
  EXPECT_EQ(quantile(counting(101), 0.99), 100.0);
  EXPECT_EQ(quantile(counting(1000), 0.999), 999.0);
  EXPECT_EQ(quantile(counting(3), 0.01), 1.0);
  EXPECT_EQ(quantile(counting(1), 0.99), 1.0);
}

// Ranks from tables of distribution-free 95 % intervals of the median (Conover;
// Hahn and Meeker), counted from 1.
TEST(QuantileRanks, EqualPublishedTables) {
  const auto ranks = [](std::size_t count) {
    const auto found = quantile_ranks(count, 0.5);
    return found ? std::pair(found->low + 1, found->high + 1) : std::pair<std::size_t, std::size_t>(0, 0);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(ranks(5), (Pair{0, 0}));
  EXPECT_EQ(ranks(6), (Pair{1, 6}));
  EXPECT_EQ(ranks(8), (Pair{1, 8}));
  EXPECT_EQ(ranks(9), (Pair{2, 8}));
  EXPECT_EQ(ranks(10), (Pair{2, 9}));
  EXPECT_EQ(ranks(20), (Pair{6, 15}));
  EXPECT_EQ(ranks(30), (Pair{10, 21}));
  EXPECT_EQ(ranks(50), (Pair{18, 33}));
  EXPECT_EQ(ranks(100), (Pair{40, 61}));
}

// The definition by brute force, with probabilities added up in long double.
TEST(QuantileRanks, AreTheTightestWithEnoughConfidence) {
  for (const double p : {0.5, 0.1, 0.9, 0.99})
    for (std::size_t count = 1; count <= 400; count += 7) {
      std::vector<long double> at_most(count + 1);  // P(B <= k)
      long double term = std::pow(1.0L - static_cast<long double>(p), static_cast<long double>(count));
      long double sum = 0.0L;
      for (std::size_t k = 0; k <= count; ++k) {
        sum += term;
        at_most[k] = sum;
        term *= static_cast<long double>(count - k) / static_cast<long double>(k + 1) * p / (1.0L - p);
      }
      // Largest 1-based rank l with P(B <= l - 1) <= 2.5 %, smallest u with P(B >= u) <= 2.5 %.
      std::size_t low = 0;
      while (low < count && at_most[low] <= 0.025L) ++low;
      std::size_t high = count + 1;
      while (high > 1 && 1.0L - at_most[high - 2] <= 0.025L) --high;
      const auto ranks = quantile_ranks(count, p);
      if (low == 0 || high == count + 1) {
        EXPECT_FALSE(ranks.has_value()) << count << ", " << p;
      } else {
        ASSERT_TRUE(ranks.has_value()) << count << ", " << p;
        EXPECT_EQ(ranks->low, low - 1) << count << ", " << p;
        EXPECT_EQ(ranks->high, high - 1) << count << ", " << p;
      }
    }
}

TEST(QuantileRanks, WorkForLargeCounts) {
  const auto ranks = quantile_ranks(1000000, 0.5);
  ASSERT_TRUE(ranks.has_value());
  EXPECT_NEAR(static_cast<double>(ranks->low), 500000 - 980, 2);
  EXPECT_NEAR(static_cast<double>(ranks->high), 500000 + 980, 2);
}

// 1 .. count, each far from its neighbours in value.
std::vector<double> spread_out(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(1.0 + (i * 97) % count);
  return values;
}

TEST(P99, NeedsThreeHundredAndSixtyEightSamples) {
  EXPECT_FALSE(p99(spread_out(367)).has_value());
  EXPECT_EQ(p99(spread_out(368)), 365.0);
  EXPECT_EQ(p99(spread_out(1000)), 990.0);
}

TEST(P99, SamplesThatComeTogetherAreFewer) {
  const auto in_steps_of = [](int together, int steps) {
    std::vector<double> values;
    for (const double step : spread_out(steps))
      values.insert(values.end(), static_cast<std::size_t>(together), step);
    return values;
  };
  // 32 sequences wait for the same step: 32 x 300 samples are 300 times of a step.
  EXPECT_FALSE(p99(in_steps_of(32, 300)).has_value());
  EXPECT_TRUE(p99(in_steps_of(32, 1000)).has_value());
  EXPECT_FALSE(p99(counting(400)).has_value()) << "all slow ones at the end: one slow moment";
}

TEST(ShareInterval, EqualsWilsonsPublishedValues) {
  // Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
  const auto near = [](std::int64_t successes, std::int64_t count, double low, double high) {
    const Interval interval = share_interval(successes, count);
    EXPECT_NEAR(interval.low, low, 5e-5);
    EXPECT_NEAR(interval.high, high, 5e-5);
  };
  near(81, 263, 0.2553, 0.3662);
  near(15, 148, 0.0624, 0.1605);
  near(0, 20, 0.0, 0.1611);
  near(1, 29, 0.0061, 0.1718);
  near(20, 20, 1.0 - 0.1611, 1.0);
}

TEST(TimeMeasurement, SaysWhatTheSamplesCanSay) {
  const Measurement few = time_measurement(std::vector<double>{3, 1, 2}, "time spent");
  EXPECT_EQ(few.value, 2.0);
  EXPECT_EQ(few.n, 3);
  EXPECT_FALSE(few.low.has_value());
  EXPECT_FALSE(few.high.has_value());
  EXPECT_FALSE(few.p99.has_value());
  EXPECT_EQ(few.stopped, "time spent");
  const Measurement many = time_measurement(scattered(), "interval narrow");
  EXPECT_EQ(many.value, 200.5);
  EXPECT_EQ(many.low, 180.0);
  EXPECT_EQ(many.high, 221.0);
  EXPECT_EQ(many.p99, 396.0);
  EXPECT_FALSE(many.effective.has_value());
  EXPECT_EQ(exact_measurement(12.0).n, 1);
  const Measurement drifting = time_measurement(counting(400), "time spent");
  EXPECT_EQ(drifting.value, 200.5);
  EXPECT_LT(*drifting.low, 100.0) << "five blocks, each with a level of its own";
  EXPECT_GT(*drifting.high, 300.0);
  EXPECT_LT(*drifting.effective, 20.0);
}

TEST(MedianOfSeries, ComesFromBlocksWhereNeighboursAreAlike) {
  // 100 samples in steps of 20 alike: five levels, whose mean is 0 and whose standard error is sqrt(2.5 / 5).
  std::vector<double> steps;
  for (int i = 0; i < 100; ++i) steps.push_back(i / 20 - 2);
  const SeriesInterval found = median_of_series(steps);
  ASSERT_TRUE(found.interval.has_value());
  EXPECT_NEAR(found.interval->high, 2.7764 * std::sqrt(0.5), 1e-3);
  EXPECT_NEAR(found.interval->low, -2.7764 * std::sqrt(0.5), 1e-3);
  EXPECT_LT(found.effective, 20.0);
  const SeriesInterval few = median_of_series(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_FALSE(few.interval.has_value());
  EXPECT_EQ(few.effective, 5.0);
}

// Five levels that differ by a factor of 4 each: with their own standard error the interval would begin below
// 0.
TEST(MedianOfSeries, OfTimesEndsAboveZero) {
  std::vector<double> times;
  for (int i = 0; i < 100; ++i) times.push_back(std::pow(4.0, i / 20 - 2));
  const SeriesInterval found = median_of_series(times);
  ASSERT_TRUE(found.interval.has_value());
  const double factor = std::pow(4.0, 2.7764 * std::sqrt(0.5));
  EXPECT_NEAR(found.interval->high, factor, 0.01 * factor);
  EXPECT_NEAR(found.interval->low, 1.0 / factor, 0.01 / factor);
}

std::vector<Measurement> processes_with(const std::vector<double>& medians, double half_width) {
  std::vector<Measurement> processes;
  for (const double median : medians)
    processes.push_back({.value = median,
                         .low = median - half_width,
                         .high = median + half_width,
                         .p99 = median + 1.0,
                         .n = 100,
                         .origin = Origin::measured,
                         .stopped = "interval narrow"});
  return processes;
}

TEST(OverProcesses, AgreeingProcessesGiveANarrowInterval) {
  const Measurement all = over_processes(processes_with({100, 101, 100, 102, 101, 100, 101, 102, 101}, 1.0));
  EXPECT_EQ(all.value, 101.0);
  EXPECT_EQ(all.low, 100.0);
  EXPECT_EQ(all.high, 102.0);
  EXPECT_EQ(all.p99, 102.0);
  EXPECT_EQ(all.n, 900);
  EXPECT_EQ(all.processes, 9);
  EXPECT_EQ(all.stopped, "interval narrow");
}

TEST(OverProcesses, DisagreeingProcessesGiveAWideOneHoweverSureEachIs) {
  // As ten runs on one machine were seen to differ, each sure of itself to 1 %.
  const std::vector<double> medians{0.18, 0.31, 0.22, 0.32, 0.19, 0.28, 0.25, 0.20, 0.30};
  const Measurement all = over_processes(processes_with(medians, 0.001));
  EXPECT_EQ(all.value, 0.25);
  EXPECT_EQ(all.low, 0.19);
  EXPECT_EQ(all.high, 0.31);
  EXPECT_EQ(over_processes(processes_with({1, 2, 3, 4, 5, 6}, 0.01)).low, 1.0);
  EXPECT_EQ(over_processes(processes_with({1, 2, 3, 4, 5, 6}, 0.01)).high, 6.0);
}

TEST(OverProcesses, OneDisturbedProcessOnEitherSideDoesNoHarm) {
  const Measurement all = over_processes(processes_with({50, 100, 101, 100, 102, 101, 100, 101, 300}, 1.0));
  EXPECT_EQ(all.low, 100.0);
  EXPECT_EQ(all.high, 102.0);
}

TEST(OverProcesses, FewProcessesHaveTheRangeOfTheirOwnIntervals) {
  const Measurement few = over_processes(processes_with({100, 110, 105}, 2.0));
  EXPECT_EQ(few.value, 105.0);
  EXPECT_EQ(few.low, 98.0);
  EXPECT_EQ(few.high, 112.0);
  std::vector<Measurement> unsure = processes_with({100, 110, 105}, 2.0);
  unsure[1].low.reset();
  unsure[1].high.reset();
  unsure[1].p99.reset();
  EXPECT_FALSE(over_processes(unsure).low.has_value()) << "one of them does not know";
  EXPECT_FALSE(over_processes(unsure).p99.has_value());
  const Measurement alone = over_processes(processes_with({7}, 1.0));
  EXPECT_EQ(alone.low, 6.0);
  EXPECT_EQ(alone.processes, 1);
}

// What one process says about itself misses what the next one will give; what nine say does not.
TEST(OverProcesses, CoversWhatAFreshProcessGives) {
  constexpr int series = 2000;
  constexpr double truth = 1.0;
  int covered = 0;
  int covered_by_one = 0;
  for (std::uint32_t i = 0; i < series; ++i) {
    RngSequence random(CounterRng(31, RngStage::bootstrap, i));
    std::vector<Measurement> processes;
    for (int process = 0; process < usual_processes; ++process) {
      const double level = truth + 0.2 * (random.uniform() - 0.5);  // of this process
      std::vector<double> runs;
      for (int run = 0; run < 30; ++run) runs.push_back(level * (1.0 + 0.02 * (random.uniform() - 0.5)));
      processes.push_back(time_measurement(runs, ""));
    }
    const auto holds = [&](const Measurement& measured) {
      return *measured.low <= truth && truth <= *measured.high;
    };
    covered += holds(over_processes(processes)) ? 1 : 0;
    covered_by_one += holds(processes.front()) ? 1 : 0;
  }
  EXPECT_GE(covered, 0.94 * series);
  EXPECT_LE(covered_by_one, 0.2 * series);
}

// Shares of simulated series whose 95 % interval holds the truth, for shapes that times have: skewed, with
// outliers, with few distinct values.
double coverage(const std::function<double(RngSequence&)>& draw, double truth, std::size_t count, double p) {
  constexpr int series = 2000;
  int covered = 0;
  for (int i = 0; i < series; ++i) {
    RngSequence random(CounterRng(2024, RngStage::bootstrap, static_cast<std::uint32_t>(i)));
    std::vector<double> values;
    for (std::size_t n = 0; n < count; ++n) values.push_back(draw(random));
    const auto interval = quantile_interval(values, p);
    covered += interval && interval->low <= truth && truth <= interval->high ? 1 : 0;
  }
  return covered / static_cast<double>(series);
}

TEST(QuantileInterval, CoversAsOftenAsItSays) {
  const auto exponential = [](RngSequence& random) { return -std::log1p(-random.uniform()); };
  const auto rounded = [](RngSequence& random) { return std::floor(10.0 * random.uniform()); };
  const auto with_outliers = [](RngSequence& random) {
    const double base = 1.0 + 0.01 * random.uniform();
    return random.uniform() < 0.1 ? 20.0 * base : base;
  };
  for (const std::size_t count : {6, 15, 40, 200}) {
    EXPECT_GE(coverage(exponential, std::log(2.0), count, 0.5), 0.93) << count;
    EXPECT_GE(coverage(rounded, 4.5, count, 0.5), 0.93) << count;
    // The median of the mixture is where 0.9 u = 0.5.
    EXPECT_GE(coverage(with_outliers, 1.0 + 0.01 * 0.5 / 0.9, count, 0.5), 0.93) << count;
  }
  EXPECT_GE(coverage(exponential, std::log(100.0), 500, 0.99), 0.93);
}

}  // namespace
}  // namespace moetune
