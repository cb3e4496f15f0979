#include "tuner/pareto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {
using Points = std::vector<std::vector<double>>;

// Small integers, so that ties in single objectives and equal points are common.
Points random_points(std::uint64_t seed, std::size_t count, std::size_t objectives) {
  RngSequence random(CounterRng(seed, RngStage::bootstrap));
  Points points(count, std::vector<double>(objectives));
  for (auto& point : points)
    for (double& value : point) value = static_cast<double>(random.below(6));
  return points;
}

TEST(Dominates, NeedsNoWorseInAllAndBetterInOne) {
  const std::vector<double> a{1, 2, 3};
  EXPECT_TRUE(dominates(a, std::vector<double>{1, 2, 4}));
  EXPECT_FALSE(dominates(a, a));
  EXPECT_FALSE(dominates(a, std::vector<double>{0, 9, 9}));
  EXPECT_FALSE(dominates(std::vector<double>{1, 2, 4}, a));
}

TEST(Dominates, NothingIsSaidAboutNotANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(dominates(std::vector<double>{0, nan}, std::vector<double>{1, 1}));
  EXPECT_FALSE(dominates(std::vector<double>{1, 1}, std::vector<double>{2, nan}));
}

TEST(NonDominated, EqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Points points = random_points(seed, 40, 1 + seed % 4);
    const auto front = non_dominated(points);
    const std::set<std::size_t> chosen(front.begin(), front.end());
    EXPECT_TRUE(std::is_sorted(front.begin(), front.end()));
    for (std::size_t i = 0; i < points.size(); ++i) {
      bool beaten = false;
      for (const auto& other : points) {
        bool no_worse = true;
        bool better = false;
        for (std::size_t k = 0; k < other.size(); ++k) {
          no_worse = no_worse && other[k] <= points[i][k];
          better = better || other[k] < points[i][k];
        }
        beaten = beaten || (no_worse && better);
      }
      EXPECT_EQ(chosen.count(i) == 1, !beaten) << "seed " << seed << " point " << i;
    }
  }
}

TEST(NonDominated, KeepsEqualPointsAndTheirOrder) {
  EXPECT_EQ(non_dominated(Points{{1, 2}, {2, 1}, {1, 2}, {2, 2}}), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_TRUE(non_dominated(Points{}).empty());
}

TEST(NonDominationRanks, PeelFrontAfterFront) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Points points = random_points(seed, 40, 3);
    const std::vector<int> ranks = non_domination_ranks(points);
    Points rest = points;
    std::vector<std::size_t> original(points.size());
    for (std::size_t i = 0; i < original.size(); ++i) original[i] = i;
    for (int rank = 0; !rest.empty(); ++rank) {
      const auto front = non_dominated(rest);
      const std::set<std::size_t> chosen(front.begin(), front.end());
      Points next;
      std::vector<std::size_t> next_original;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        EXPECT_EQ(ranks[original[i]] == rank, chosen.count(i) == 1);
        if (chosen.count(i) == 1) continue;
        next.push_back(rest[i]);
        next_original.push_back(original[i]);
      }
      rest = next;
      original = next_original;
    }
  }
}

TEST(CrowdingDistances, AreGapsAsSharesOfTheRange) {
  const Points points{{0, 4}, {1, 3}, {4, 0}, {9, 9}};
  const std::vector<std::size_t> front{2, 0, 1};
  const auto distances = crowding_distances(points, front);
  EXPECT_TRUE(std::isinf(distances[0]));
  EXPECT_TRUE(std::isinf(distances[1]));
  EXPECT_DOUBLE_EQ(distances[2], 2.0);  // its neighbours are the ends in both objectives
  EXPECT_EQ(crowding_distances(Points{{1, 1}, {1, 1}}, std::vector<std::size_t>{0, 1}),
            (std::vector<double>{0.0, 0.0}));
  EXPECT_TRUE(crowding_distances(points, {}).empty());
}

Trial trial(std::int64_t number, const char* top_k, double tpot, double kl, Outcome outcome = Outcome::ok) {
  Trial made;
  made.number = number;
  made.configuration.values["top_k"] = top_k;
  made.outcome = outcome;
  if (outcome != Outcome::ok) return made;
  made.metrics["tpot_ms"].value = tpot;
  made.metrics["kl_mean"].value = kl;
  return made;
}

std::vector<std::int64_t> numbers(const ParetoFront& front) {
  std::vector<std::int64_t> found;
  for (const Trial& each : front.trials) found.push_back(each.number);
  return found;
}

TEST(ParetoFront, IsSortedByTheFirstObjective) {
  const auto objectives = objectives_named("tpot_ms,kl_mean");
  const std::vector<Trial> trials{trial(0, "8", 3, 0), trial(1, "4", 1, 0.1), trial(2, "6", 2, 0.05),
                                  trial(3, "5", 2.5, 0.2), trial(4, "3", 0, 0, Outcome::crashed)};
  EXPECT_EQ(numbers(pareto_front(trials, objectives)), (std::vector<std::int64_t>{1, 2, 0}));
}

TEST(ParetoFront, CountsTheLastTrialOfAConfiguration) {
  const auto objectives = objectives_named("tpot_ms,kl_mean");
  // The second measurement of top_k=4 shows that the first one was luck.
  const std::vector<Trial> trials{trial(0, "8", 2, 0), trial(1, "4", 1, 0.1), trial(2, "4", 3, 0.1)};
  EXPECT_EQ(numbers(pareto_front(trials, objectives)), (std::vector<std::int64_t>{0}));
  // A failed second try does not wipe out a measured first one.
  const std::vector<Trial> failed{trial(0, "8", 2, 0), trial(1, "4", 1, 0.1),
                                  trial(2, "4", 0, 0, Outcome::timed_out)};
  EXPECT_EQ(numbers(pareto_front(failed, objectives)), (std::vector<std::int64_t>{1, 0}));
}

TEST(ParetoFront, MayBeEmpty) {
  EXPECT_TRUE(pareto_front({}, objectives_named("tpot_ms")).trials.empty());
  const std::vector<Trial> failed{trial(0, "8", 0, 0, Outcome::out_of_memory)};
  EXPECT_TRUE(pareto_front(failed, objectives_named("tpot_ms")).trials.empty());
}

}  // namespace
}  // namespace moetune
