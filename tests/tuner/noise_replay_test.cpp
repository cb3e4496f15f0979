// The bounds that verdicts and intervals keep on recorded noise of real runs; the figures behind them:
// reports/noise/replay.txt.
#include <cctype>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/noise_experiments.h"
#include "tests/tuner/support/made_up_series.h"

namespace moetune {
namespace {

class NoiseReplay : public ::testing::TestWithParam<std::string> {
 protected:
  static bool is_shared() { return noise_name(GetParam()).ends_with("-shared"); }

  const RecordedNoise noise_{GetParam()};
};

TEST_P(NoiseReplay, AnIdenticalChallengerIsHardlyEverAdopted) {
  const Adoptions found = adoptions(noise_, 0.0, 100);
  EXPECT_EQ(found.studies, 100);
  EXPECT_LE(found.replaced, 5);
}

// At ordinary priority beside other programs times differ by tens of percent: there 5 % cannot be told, and
// must not be claimed.
TEST_P(NoiseReplay, ATrueGainIsAdoptedWhereTheMachineAllows) {
  const Adoptions found = adoptions(noise_, 0.05, 100);
  if (is_shared()) {
    EXPECT_LE(found.replaced - found.right, 5);
  } else {
    EXPECT_GE(found.right, 80);
  }
}

TEST_P(NoiseReplay, FreshStudiesGiveTheSameProfileOrOneWithinItsTolerance) {
  for (const std::size_t trials : {100, 150})
    EXPECT_GE(repeats(noise_, 20, trials).within_tolerance, 19) << trials << " trials each";
}

TEST_P(NoiseReplay, ASlowdownIsFoundAndNoneIsNot) {
  const Alarms slower = alarms(noise_, 0.05, 0.05, 60, 100);
  if (is_shared()) {
    EXPECT_LE(slower.ok, 5) << "what cannot be told is not ok but indeterminate";
  } else {
    EXPECT_GE(slower.regressions, 95);
  }
  EXPECT_LE(alarms(noise_, 0.0, 0.05, 60, 100).regressions, 1);
}

// What `ci` compares where it has last night's program: both in each pass, a process each.
TEST_P(NoiseReplay, ACheckBesideTheBaselinesProgramFindsASlowdown) {
  const Alarms slower = nights_beside(noise_, 0.05, 0.05, 100);
  if (is_shared()) {
    EXPECT_LE(slower.ok, 5);
  } else {
    EXPECT_GE(slower.regressions, 95);
  }
  EXPECT_LE(nights_beside(noise_, 0.0, 0.05, 100).regressions, 1);
}

// What it compares where it has only the profile's numbers, of another half minute: on a card that is as fast
// all night the same; on a processor that others share, moods between the two are as large as the threshold,
// and what it may not do there is to call a slowdown ok, or to find one that is none. (Beside other work, as
// "shared" was recorded, it says so whatever it finds.)
TEST_P(NoiseReplay, ACheckAgainstTheProfileAloneClaimsNoMoreThanItKnows) {
  if (is_shared()) GTEST_SKIP() << "recorded beside other work, which is a verdict of its own";
  const Alarms slower = nights(noise_, 0.05, 0.05, 100);
  if (noise_name(GetParam()).starts_with("cuda-")) {
    EXPECT_GE(slower.regressions, 95);
  } else {
    EXPECT_LE(slower.ok, 10);
  }
  EXPECT_LE(nights(noise_, 0.0, 0.05, 100).regressions, 1);
}

void expect_honest(const Coverage& found, const std::string& what) {
  EXPECT_EQ(found.re_runs, 1000) << what;
  EXPECT_GE(found.stated, 900) << what;
  EXPECT_GE(found.covered, 0.93 * found.stated) << what;
  EXPECT_LE(found.width, 1.5 * found.bootstrap_width) << what;
}

TEST_P(NoiseReplay, StatedIntervalsHoldTheLongRunValue) {
  expect_honest(measure_coverage(noise_, 3, 1000), "measure");
  expect_honest(ratio_coverage(noise_, 20, 1000), "paired ratio");
}

INSTANTIATE_TEST_SUITE_P(Recorded, NoiseReplay, ::testing::ValuesIn(noise_files()), [](const auto& tested) {
  std::string name = noise_name(tested.param);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(Machine, HandsOutProcessesInTheirOrderFromOneThatTheSeedSays) {
  std::vector<std::vector<double>> processes;
  for (int i = 0; i < 50; ++i) processes.emplace_back(7, 1.0 + 0.01 * i);
  const RecordedNoise noise(processes);
  std::set<double> begins;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine(noise, seed);
    const double first = machine.time(2.0).value;
    begins.insert(first);
    std::size_t process = 0;
    while (process < noise.processes() && std::abs(2.0 * noise.level(process) - first) > 1e-12) ++process;
    ASSERT_LT(process, noise.processes());
    for (std::size_t i = 1; i < 60; ++i)
      ASSERT_NEAR(machine.time(2.0).value, 2.0 * noise.level(process + i), 1e-12) << i;
  }
  EXPECT_GT(begins.size(), 5U);
}

TEST(StatedIntervals, HoldTheLongRunValueOfCorrelatedSeries) {
  for (const int count : {100, 400})
    for (const double correlation : {0.0, 0.3, 0.6, 0.8}) {
      if (count == 100 && correlation > 0.6) continue;  // 100 such samples tell as much as 14
      const auto series = [&](std::uint32_t run) {
        std::vector<double> times = made_up_series(run, count, correlation);
        for (double& time : times) time = std::exp(0.1 * time);
        return times;
      };
      expect_honest(coverage(series, 1.0, 1000),
                    std::to_string(count) + " samples, correlation " + std::to_string(correlation));
    }
}

}  // namespace
}  // namespace moetune
