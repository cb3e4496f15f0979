#include "engine/sync_tax/breakdown.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

constexpr std::size_t at(Part part) { return static_cast<std::size_t>(part); }
constexpr std::size_t at(Row row) { return static_cast<std::size_t>(row); }

Account token(std::int64_t router, std::int64_t gate_up, std::int64_t wait, std::int64_t gap) {
  std::vector<StepInterval> intervals = {
      {0, router, Activity::compute, Row::router, 0},
      {router, router + gate_up, Activity::compute, Row::gate_up, 0},
      {router + gate_up, router + gate_up + wait, Activity::host_wait, Row::other, 0}};
  return account(0, router + gate_up + wait + gap, intervals);
}

double explained(const Breakdown& breakdown) {
  return std::accumulate(breakdown.exposed_ns.begin(), breakdown.exposed_ns.end(), 0.0);
}

TEST(Breakdown, PartsAndUnexplainedAddUpToThePlainTime) {
  for (const double plain : {900.0, 1000.0, 1100.0, 5000.0})
    for (const RecordingCost cost : {RecordingCost{}, RecordingCost{10.0, 20.0}, RecordingCost{1e4, 1e4}}) {
      const Breakdown made = break_down(std::vector{token(100, 600, 200, 100)}, plain, cost);
      EXPECT_DOUBLE_EQ(explained(made) + made.unexplained_ns, plain);
    }
}

TEST(Breakdown, TakesTheCostOfRecordsOutOfTheirOwnPartAndOfTheGaps) {
  const Breakdown made =
      break_down(std::vector{token(100, 600, 200, 100)}, 1000.0, {.inside_ns = 5.0, .outside_ns = 10.0});
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::router)], 95.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::compute)], 595.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::synchronisation)], 195.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::launch_gaps)], 70.0);
  EXPECT_DOUBLE_EQ(made.recording_ns, 45.0);
  EXPECT_DOUBLE_EQ(made.unexplained_ns, 45.0);
  EXPECT_DOUBLE_EQ(made.row_ns[at(Row::router)], 95.0);
  EXPECT_DOUBLE_EQ(made.row_ns[at(Row::gate_up)], 595.0);
}

// Of a GPU it is an interval of its own: taken out of no part, and no part of the token.
TEST(Breakdown, WhatRecordingAddedIsNotExplained) {
  const std::vector<StepInterval> intervals = {{0, 10, Activity::recording, Row::other, -1},
                                               {10, 100, Activity::compute, Row::router, 0},
                                               {100, 130, Activity::host_wait, Row::other, 0},
                                               {110, 130, Activity::recording, Row::other, -1}};
  const Account one = account(0, 150, intervals);
  EXPECT_EQ(one.recording_ns, 30);
  EXPECT_EQ(one.record_count(), 2);
  const Breakdown made = break_down(std::vector{one}, 121.0, {});
  EXPECT_DOUBLE_EQ(made.recorded_ns, 150.0);
  EXPECT_DOUBLE_EQ(made.recording_ns, 30.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::router)], 90.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::synchronisation)], 10.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::launch_gaps)], 20.0);
  EXPECT_DOUBLE_EQ(made.unexplained_ns, 1.0);
  EXPECT_EQ(made.refused,
            "recorded, a token takes 1.24 times its plain time; beyond 1.10 what is recorded is "
            "not what runs otherwise");
}

TEST(Breakdown, WhatAPartCannotGiveStaysUnexplained) {
  const Breakdown made =
      break_down(std::vector{token(100, 600, 200, 0)}, 900.0, {.inside_ns = 0.0, .outside_ns = 50.0});
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::launch_gaps)], 0.0);
  EXPECT_DOUBLE_EQ(made.unexplained_ns, 0.0);
}

TEST(Breakdown, UnexplainedHasItsSign) {
  EXPECT_DOUBLE_EQ(break_down(std::vector{token(100, 600, 200, 100)}, 980.0, {}).unexplained_ns, -20.0);
  EXPECT_DOUBLE_EQ(break_down(std::vector{token(100, 600, 200, 100)}, 1030.0, {}).unexplained_ns, 30.0);
}

TEST(Breakdown, TaxIsWhatIsNoComputeAndNoRouter) {
  const Breakdown made = break_down(std::vector{token(100, 600, 200, 100)}, 1000.0, {});
  EXPECT_DOUBLE_EQ(made.tax_ns(), 300.0);
  EXPECT_DOUBLE_EQ(made.tax_share(), 0.3);
}

TEST(Breakdown, IsRefusedBeyondATenthMoreThanPlain) {
  EXPECT_EQ(break_down(std::vector{token(100, 600, 300, 100)}, 1000.0, {}).refused, "");
  EXPECT_NE(break_down(std::vector{token(100, 600, 301, 100)}, 1000.0, {}).refused, "");
  EXPECT_NE(break_down({}, 1000.0, {}).refused, "");
  EXPECT_NE(break_down(std::vector{token(1, 1, 1, 1)}, 0.0, {}).refused, "");
}

TEST(Breakdown, IsTheMeanOfItsAccounts) {
  const Breakdown made =
      break_down(std::vector{token(100, 600, 200, 100), token(300, 600, 0, 100)}, 1000.0, {});
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::router)], 200.0);
  EXPECT_DOUBLE_EQ(made.exposed_ns[at(Part::synchronisation)], 100.0);
  EXPECT_EQ(made.n, 2);
}

TEST(Breakdown, MiddleAndSlowest) {
  std::vector<std::int64_t> lengths(200);
  std::iota(lengths.begin(), lengths.end(), 0);
  const std::vector<std::size_t> middle = middle_half(lengths);
  EXPECT_EQ(middle.size(), 100U);
  EXPECT_EQ(middle.front(), 50U);
  EXPECT_EQ(slowest_hundredth(lengths), (std::vector<std::size_t>{198, 199}));
  lengths.resize(99);
  EXPECT_TRUE(slowest_hundredth(lengths).empty());
  EXPECT_DOUBLE_EQ(middle_mean(std::vector<std::int64_t>{1, 5, 7, 1000}), 6.0);
  EXPECT_DOUBLE_EQ(middle_mean(std::vector<std::int64_t>{3}), 3.0);
  EXPECT_DOUBLE_EQ(middle_mean({}), 0.0);
}

}  // namespace
}  // namespace moetune
