#include "tuner/slowdown.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tuner/support/made_up_series.h"

namespace moetune {
namespace {

constexpr double threshold = 0.05;

Slowdown with(double value, double low, double high, std::int64_t rounds = 20) {
  return {.value = value, .interval = Interval{low, high}, .rounds = rounds};
}

TEST(PairedSlowdown, MoodsOfARoundCancel) {
  const std::vector<double> moods{1.0, 2.0, 1.5, 1.1, 3.0, 1.2, 1.0};
  std::vector<double> before;
  std::vector<double> now;
  for (const double mood : moods) {
    before.push_back(4.0 * mood);
    now.push_back(4.2 * mood);
  }
  const Slowdown found = paired_slowdown(before, now);
  EXPECT_NEAR(found.value, 0.05, 1e-12);
  ASSERT_TRUE(found.interval.has_value());
  EXPECT_NEAR(found.interval->low, 0.05, 1e-12);
  EXPECT_NEAR(found.interval->high, 0.05, 1e-12);
  EXPECT_EQ(found.rounds, 7);
  EXPECT_NEAR(slowdown_since(before, now).value, 0.05, 0.06) << "the same medians without pairs";
  EXPECT_GT(slowdown_since(before, now).interval->high, 0.3) << "but then the moods are part of it";
}

// A mood of the machine that lasts longer than a round, and does not cancel: such rounds tell less than
// others.
TEST(PairedSlowdown, RoundsThatResembleTheirNeighboursWidenTheInterval) {
  constexpr std::size_t rounds = 120;
  const std::vector<double> before(rounds, 1.0);
  const auto width = [&](const std::vector<double>& now) {
    const Interval interval = paired_slowdown(before, now).interval.value();
    return interval.high - interval.low;
  };
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) {
    std::vector<double> now;
    for (const double mood : made_up_series(number, rounds, 0.6)) now.push_back(std::exp(0.01 * mood));
    std::vector<double> shuffled;  // the same rounds, neighbours far apart
    for (std::size_t i = 0; i < rounds; ++i) shuffled.push_back(now[i * 43 % rounds]);
    EXPECT_GT(width(now), 1.4 * width(shuffled)) << number;
  }
}

TEST(PairedSlowdown, FiveRoundsHaveNoInterval) {
  const std::vector<double> five(5, 1.0);
  EXPECT_FALSE(paired_slowdown(five, five).interval.has_value());
  EXPECT_EQ(judge_slowdown(paired_slowdown(five, five), threshold), SlowdownVerdict::indeterminate);
  EXPECT_EQ(rounds_needed(paired_slowdown(five, five), threshold), 6);
}

// Ranks would give one from three rounds on: against twenty, three that shared a mood look like a change
// beyond doubt.
TEST(SlowdownSince, FiveRoundsOfEitherNightHaveNoInterval) {
  const std::vector<double> many{1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.0, 1.01, 0.99, 1.03, 0.97};
  const std::vector<double> few(5, 1.4);
  for (const auto& [before, now] : {std::pair{few, many}, std::pair{many, few}}) {
    const Slowdown found = slowdown_since(before, now);
    EXPECT_FALSE(found.interval.has_value());
    EXPECT_EQ(found.rounds, 5);
    EXPECT_NE(found.value, 0.0) << "the difference itself is said";
  }
  EXPECT_TRUE(slowdown_since(std::vector<double>(6, 1.4), many).interval.has_value());
}

TEST(PairedSlowdown, RefusesWhatHasNoRatio) {
  const std::vector<double> two{1.0, 1.0};
  EXPECT_THROW(paired_slowdown(two, std::vector<double>{1.0}), std::invalid_argument);
  EXPECT_THROW(paired_slowdown({}, {}), std::invalid_argument);
  EXPECT_THROW(paired_slowdown(two, std::vector<double>{1.0, 0.0}), std::invalid_argument);
  EXPECT_THROW(paired_slowdown(std::vector<double>{1.0, -1.0}, two), std::invalid_argument);
  EXPECT_THROW(slowdown_since(two, std::vector<double>{0.0}), std::invalid_argument);
}

TEST(JudgeSlowdown, ByTheWholeInterval) {
  EXPECT_EQ(judge_slowdown(with(0.05, 0.026, 0.07), threshold), SlowdownVerdict::regression);
  EXPECT_EQ(judge_slowdown(with(0.05, 0.025, 0.07), threshold), SlowdownVerdict::indeterminate);
  EXPECT_EQ(judge_slowdown(with(0.0, -0.02, 0.02), threshold), SlowdownVerdict::ok);
  EXPECT_EQ(judge_slowdown(with(0.02, -0.02, 0.05), threshold), SlowdownVerdict::indeterminate);
  EXPECT_EQ(judge_slowdown(with(0.035, 0.03, 0.04), threshold), SlowdownVerdict::regression)
      << "both hold: the alarm counts";
  EXPECT_EQ(judge_slowdown(with(-0.2, -0.3, -0.1), threshold), SlowdownVerdict::ok);
  EXPECT_THROW(judge_slowdown(with(0.0, 0.0, 0.0), 0.0), std::invalid_argument);
}

TEST(RoundsNeeded, AreThoseThatWouldEndIt) {
  EXPECT_EQ(rounds_needed(with(0.0, -0.02, 0.02), threshold), 20) << "decided: none more";
  // 6 % above its value has to become less than 5 %: 20 x (6 / 5)^2.
  EXPECT_EQ(rounds_needed(with(0.0, -0.06, 0.06), threshold), 29);
  // 5 % may be a regression as soon as 4 % below it have become 2.5 %.
  EXPECT_EQ(rounds_needed(with(0.05, 0.01, 0.09), threshold), 52);
  EXPECT_EQ(rounds_to_narrow(10, 1.0, 2.0), 11) << "never fewer than there are";
  EXPECT_EQ(rounds_to_narrow(10, 1.0, 0.0), 1'000'000);
}

TEST(RoundsNeeded, AreEnoughInHalfOfAllSeries) {
  // With the rounds it asks for, a verdict of noise that was too wide comes in at least every second series.
  int undecided = 0;
  int ended = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::vector<double> noise = made_up_series(i, 3000, 0.0);
    const auto found = [&](std::int64_t rounds) {
      std::vector<double> before(static_cast<std::size_t>(rounds), 1.0);
      std::vector<double> now;
      for (std::int64_t round = 0; round < rounds; ++round)
        now.push_back(std::exp(0.15 * noise[static_cast<std::size_t>(round)]));
      return paired_slowdown(before, now);
    };
    const std::int64_t needed = rounds_needed(found(12), threshold);
    if (judge_slowdown(found(12), threshold) != SlowdownVerdict::indeterminate || needed > 3000) continue;
    ++undecided;
    ended += judge_slowdown(found(needed), threshold) != SlowdownVerdict::indeterminate ? 1 : 0;
  }
  EXPECT_GT(undecided, 100);
  EXPECT_GT(2 * ended, undecided);
}

TEST(SlowdownText, SaysItInWords) {
  EXPECT_EQ(slowdown_text(with(0.048, 0.039, 0.056, 24)),
            "4.8 % slower (95 % interval 3.9 % to 5.6 % slower, 24 rounds)");
  EXPECT_EQ(slowdown_text(with(-0.1, -0.12, -0.08, 24)),
            "10.0 % faster (95 % interval 8.0 % to 12.0 % faster, 24 rounds)");
  EXPECT_EQ(slowdown_text(with(-0.003, -0.01, 0.004, 24)),
            "0.3 % faster (95 % interval 1.0 % faster to 0.4 % slower, 24 rounds)");
  EXPECT_EQ(slowdown_text(with(0.0002, -0.0001, 0.0004, 9)),
            "0.02 % slower (95 % interval 0.01 % faster to 0.04 % slower, 9 rounds)");
  EXPECT_EQ(slowdown_text({.value = 0.01, .interval = {}, .rounds = 1}),
            "1.0 % slower (no 95 % interval, 1 round)");
  EXPECT_EQ(verdict_text(with(0.048, 0.039, 0.056, 24), threshold),
            "regression: 4.8 % slower (95 % interval 3.9 % to 5.6 % slower, 24 rounds) lies above "
            "2.5 %, half of the threshold of 5 %");
  EXPECT_EQ(verdict_text(with(0.0, -0.06, 0.06), threshold),
            "indeterminate: 0.0 % slower (95 % interval 6.0 % faster to 6.0 % slower, 20 rounds) lies "
            "neither below the "
            "threshold of 5 % nor above 2.5 %, half of it; about 29 rounds would tell");
}

// An injected slowdown of the threshold is found, and none is not, under noise that 30 rounds can see
// through; neighbouring rounds may resemble each other.
TEST(JudgeSlowdown, FindsWhatItMustAndCriesNoWolf) {
  for (const double correlation : {0.0, 0.5}) {
    int found = 0;
    int alarms = 0;
    for (std::uint32_t i = 0; i < 400; ++i) {
      const std::vector<double> noise = made_up_series(i, 60, correlation);
      const std::vector<double> before(60, 1.0);
      std::vector<double> slower;
      std::vector<double> same;
      for (const double value : noise) {
        same.push_back(std::exp(0.02 * value));
        slower.push_back(1.05 * same.back());
      }
      found +=
          judge_slowdown(paired_slowdown(before, slower), threshold) == SlowdownVerdict::regression ? 1 : 0;
      alarms +=
          judge_slowdown(paired_slowdown(before, same), threshold) == SlowdownVerdict::regression ? 1 : 0;
    }
    EXPECT_GE(found, 0.95 * 400) << correlation;
    EXPECT_LE(alarms, 4) << correlation;
  }
}

}  // namespace
}  // namespace moetune
