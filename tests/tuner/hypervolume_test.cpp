#include "tuner/hypervolume.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {
using Points = std::vector<std::vector<double>>;

TEST(Hypervolume, KnownAreas) {
  EXPECT_DOUBLE_EQ(hypervolume(Points{{3}, {1}, {2}}, std::vector<double>{5}), 4.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{1, 3}, {2, 2}, {3, 1}}, std::vector<double>{4, 4}), 6.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{0, 0, 0}}, std::vector<double>{2, 3, 4}), 24.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{1, 1, 1, 1}, {0, 1, 1, 1}}, std::vector<double>{2, 2, 2, 2}), 2.0);
}

TEST(Hypervolume, PointsBeyondTheReferenceAddNothing) {
  EXPECT_DOUBLE_EQ(hypervolume(Points{}, std::vector<double>{1, 1}), 0.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{0, 1}, {2, 0}, {1, 1}}, std::vector<double>{1, 1}), 0.0);
  EXPECT_DOUBLE_EQ(hypervolume(Points{{0, 0}, {-5, 3}}, std::vector<double>{1, 1}), 1.0);
}

TEST(Hypervolume, RefusesOtherThanOneToFourObjectives) {
  EXPECT_THROW(hypervolume(Points{}, std::vector<double>{}), std::invalid_argument);
  EXPECT_THROW(hypervolume(Points{}, std::vector<double>(5, 1.0)), std::invalid_argument);
  EXPECT_THROW(hypervolume(Points{{1, 2}}, std::vector<double>{1}), std::invalid_argument);
}

// On integer coordinates a volume is a number of unit cubes, which can be counted.
TEST(Hypervolume, EqualsCountedCubesExactly) {
  constexpr int side = 6;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::size_t objectives = 1 + seed % 4;
    RngSequence random(CounterRng(seed, RngStage::bootstrap));
    Points points(1 + random.below(20), std::vector<double>(objectives));
    for (auto& point : points)
      for (double& value : point) value = static_cast<double>(random.below(side + 1));
    int cubes = 1;
    for (std::size_t k = 0; k < objectives; ++k) cubes *= side;
    int dominated = 0;
    for (int cube = 0; cube < cubes; ++cube)
      dominated += std::any_of(points.begin(), points.end(), [&](const auto& point) {
        int rest = cube;
        for (const double value : point) {
          if (value > rest % side) return false;
          rest /= side;
        }
        return true;
      });
    EXPECT_DOUBLE_EQ(hypervolume(points, std::vector<double>(objectives, side)), dominated)
        << "seed " << seed;
  }
}

TEST(Hypervolume, AgreesWithMonteCarlo) {
  constexpr int draws = 40000;
  for (std::size_t objectives = 2; objectives <= 4; ++objectives) {
    RngSequence random(CounterRng(objectives, RngStage::bootstrap));
    Points points(30, std::vector<double>(objectives));
    for (auto& point : points)
      for (double& value : point) value = random.uniform();
    int inside = 0;
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<double> x(objectives);
      for (double& value : x) value = random.uniform();
      inside += std::any_of(points.begin(), points.end(), [&](const auto& point) {
        return std::equal(point.begin(), point.end(), x.begin(), [](double p, double v) { return p <= v; });
      });
    }
    const double share = inside / static_cast<double>(draws);
    const double four_sigma = 4.0 * std::sqrt(share * (1.0 - share) / draws);
    EXPECT_NEAR(hypervolume(points, std::vector<double>(objectives, 1.0)), share, four_sigma);
  }
}

Trial trial(double tpot, double kl, double tokens_per_s, Outcome outcome = Outcome::ok) {
  Trial made;
  made.outcome = outcome;
  if (outcome != Outcome::ok) return made;
  made.metrics["tpot_ms"].value = tpot;
  made.metrics["kl_mean"].value = kl;
  made.metrics["tokens_per_s"].value = tokens_per_s;
  return made;
}

TEST(ReferencePoint, IsLimitThenTwiceTheDefaultThenOne) {
  auto objectives = objectives_named("tpot_ms,kl_mean,tokens_per_s");
  const std::vector<Trial> trials{trial(2, 0, 100), trial(1, 0.03, 300)};
  EXPECT_EQ(reference_point(objectives, trials), (std::vector<double>{4, 0.04, -50}));
  objectives[1].limit.reset();
  objectives[2].limit = 80;  // at least
  EXPECT_EQ(reference_point(objectives, trials), (std::vector<double>{4, 1, -80}));
}

TEST(ReferencePoint, DoesNotMoveWhileTheSearchGoesOn) {
  const auto objectives = objectives_named("tpot_ms,kl_mean");
  std::vector<Trial> trials{trial(0, 0, 0, Outcome::out_of_memory)};
  EXPECT_TRUE(reference_point(objectives, trials).empty());
  trials.push_back(trial(2, 0, 100));
  const auto first = reference_point(objectives, trials);
  trials.push_back(trial(50, 0.3, 1));
  EXPECT_EQ(reference_point(objectives, trials), first);
}

TEST(HypervolumeHistory, GrowsWithEveryTrialThatTheFrontTakes) {
  const auto objectives = objectives_named("tpot_ms,device_bytes");
  const auto trial = [](std::int64_t number, double ms, double bytes) {
    Trial made;
    made.number = number;
    made.metrics["tpot_ms"].value = ms;
    made.metrics["device_bytes"].value = bytes;
    return made;
  };
  Trial failed;
  failed.outcome = Outcome::crashed;
  // The reference is twice the first trial: (4, 8); the best values are 1 and 2, so the whole is 3 x 6 = 18.
  const std::vector<Trial> trials = {trial(0, 2, 4), failed, trial(2, 1, 6), trial(3, 3, 7), trial(4, 3, 2)};
  const std::vector<double> history = hypervolume_history(objectives, trials);
  ASSERT_EQ(history.size(), 5U);
  EXPECT_DOUBLE_EQ(history[0], 2.0 * 4.0 / 18.0);
  EXPECT_DOUBLE_EQ(history[1], history[0]);
  EXPECT_DOUBLE_EQ(history[2], (8.0 + 1.0 * 2.0) / 18.0);
  EXPECT_DOUBLE_EQ(history[3], history[2]) << "a dominated trial adds nothing";
  EXPECT_DOUBLE_EQ(history[4], (10.0 + 1.0 * 2.0) / 18.0);
  EXPECT_TRUE(hypervolume_history(objectives, std::vector<Trial>{failed}).empty());
}

}  // namespace
}  // namespace moetune
