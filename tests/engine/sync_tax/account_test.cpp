#include "engine/sync_tax/account.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

constexpr std::size_t at(Part part) { return static_cast<std::size_t>(part); }
constexpr std::size_t at(Row row) { return static_cast<std::size_t>(row); }

StepInterval compute(std::int64_t begin, std::int64_t end, Row row) {
  return {begin, end, Activity::compute, row, 0};
}
StepInterval other(std::int64_t begin, std::int64_t end, Activity activity) {
  return {begin, end, activity, Row::other, 0};
}

// The rule once more, in its plainest form: instant by instant, the first that is active has it.
Account painted(std::int64_t begin, std::int64_t end, const std::vector<StepInterval>& intervals) {
  constexpr std::array before_recording = {Part::compute, Part::router, Part::communication,
                                           Part::expert_loading};
  Account sum;
  sum.length_ns = end - begin;
  for (std::int64_t t = begin; t < end; ++t) {
    std::array<bool, kParts> is_active{};
    std::array<bool, kRows> is_row_active{};
    bool is_recording = false;
    for (const StepInterval& one : intervals) {
      if (t < one.begin_ns || t >= one.end_ns) continue;
      if (one.activity == Activity::recording) {
        is_recording = true;
        continue;
      }
      is_active[at(part_of(one.activity, one.row))] = true;
      if (one.activity == Activity::compute) is_row_active[at(one.row)] = true;
    }
    const auto* const winner =
        std::ranges::find_if(before_recording, [&](Part part) { return is_active[at(part)]; });
    if (winner == before_recording.end() && is_recording) {
      ++sum.recording_ns;
      continue;
    }
    const Part part = winner != before_recording.end()       ? *winner
                      : is_active[at(Part::synchronisation)] ? Part::synchronisation
                                                             : Part::launch_gaps;
    ++sum.exposed_ns[at(part)];
    for (std::size_t i = 0; i < kParts; ++i)
      if (is_active[i] && i != at(part)) ++sum.hidden_ns[i];
    bool has_row = part != Part::compute && part != Part::router;
    // The router's row comes last: another row that computes has the instant.
    for (std::size_t i = 1; i <= kRows; ++i) {
      const std::size_t row = i % kRows;
      if (!is_row_active[row]) continue;
      ++(has_row ? sum.row_hidden_ns : sum.row_ns)[row];
      has_row = true;
    }
  }
  for (const StepInterval& one : intervals) {
    const bool touches = one.begin_ns < end && one.end_ns >= begin;
    if (touches && one.activity != Activity::recording) ++sum.records[at(part_of(one.activity, one.row))];
  }
  return sum;
}

void expect_equal(const Account& a, const Account& b) {
  EXPECT_EQ(a.length_ns, b.length_ns);
  EXPECT_EQ(a.exposed_ns, b.exposed_ns);
  EXPECT_EQ(a.recording_ns, b.recording_ns);
  EXPECT_EQ(a.hidden_ns, b.hidden_ns);
  EXPECT_EQ(a.row_ns, b.row_ns);
  EXPECT_EQ(a.row_hidden_ns, b.row_hidden_ns);
  EXPECT_EQ(a.records, b.records);
}

std::int64_t total(const auto& array) { return std::accumulate(array.begin(), array.end(), std::int64_t{0}); }

StepInterval random_interval(std::mt19937& random, std::int64_t latest) {
  std::uniform_int_distribution<std::int64_t> place(-5, latest);
  std::uniform_int_distribution<int> activity(0, kActivities - 1);
  std::uniform_int_distribution<int> row(0, kRows - 1);
  const std::int64_t a = place(random);
  const std::int64_t b = place(random);
  return {std::min(a, b), std::max(a, b), static_cast<Activity>(activity(random)),
          static_cast<Row>(row(random)), 0};
}

TEST(Account, IsTheRuleInstantByInstant) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<StepInterval> intervals;
    const int count = round % 9;
    for (int i = 0; i < count; ++i) intervals.push_back(random_interval(random, 45));
    SCOPED_TRACE(round);
    const Account account = moetune::account(0, 40, intervals);
    expect_equal(account, painted(0, 40, intervals));
    EXPECT_EQ(total(account.exposed_ns) + account.recording_ns, account.length_ns);
    EXPECT_EQ(total(account.row_ns),
              account.exposed_ns[at(Part::compute)] + account.exposed_ns[at(Part::router)]);
    if (testing::Test::HasFailure()) return;
  }
}

// Every pair of kinds, in every way in which two intervals can lie to each other.
TEST(Account, TwoIntervalsInEveryPosition) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> places = {{0, 4}, {2, 6}, {4, 8}, {2, 4},
                                                                     {0, 8}, {3, 3}, {8, 9}};
  std::vector<StepInterval> kinds;
  for (std::size_t row = 0; row < kRows; ++row) kinds.push_back(compute(0, 0, static_cast<Row>(row)));
  for (const Activity activity :
       {Activity::collective, Activity::expert_copy, Activity::recording, Activity::host_wait})
    kinds.push_back(other(0, 0, activity));
  for (StepInterval first : kinds)
    for (StepInterval second : kinds)
      for (const auto& [begin, end] : places) {
        first.begin_ns = 2;
        first.end_ns = 6;
        second.begin_ns = begin;
        second.end_ns = end;
        expect_equal(account(0, 8, std::vector{first, second}), painted(0, 8, {first, second}));
        if (testing::Test::HasFailure()) return;
      }
}

TEST(Account, OrderOfTheListDoesNotMatter) {
  std::mt19937 random(11);
  std::vector<StepInterval> intervals;
  for (int i = 0; i < 30; ++i) intervals.push_back(random_interval(random, 100));
  const Account first = account(0, 100, intervals);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(intervals, random);
    expect_equal(account(0, 100, intervals), first);
  }
}

// Two halves of a window hold what the whole holds, but for records that lie in both.
TEST(Account, CutsAddUp) {
  std::mt19937 random(13);
  std::vector<StepInterval> intervals;
  for (int i = 0; i < 30; ++i) intervals.push_back(random_interval(random, 100));
  const Account whole = account(0, 100, intervals);
  for (std::int64_t cut = 0; cut <= 100; cut += 7) {
    Account sum = account(0, cut, intervals);
    sum += account(cut, 100, intervals);
    sum.records = whole.records;
    expect_equal(sum, whole);
  }
}

TEST(Account, NothingRecordedIsALaunchGap) {
  const Account empty = account(5, 25, {});
  EXPECT_EQ(empty.exposed_ns[at(Part::launch_gaps)], 20);
  EXPECT_EQ(empty.record_count(), 0);
  EXPECT_EQ(account(5, 5, {}).length_ns, 0);
}

TEST(Account, WhatRunsBesideComputeIsHidden) {
  const std::vector<StepInterval> intervals = {
      compute(0, 10, Row::attention), other(2, 6, Activity::expert_copy), other(8, 14, Activity::collective),
      compute(3, 5, Row::router)};
  const Account one = account(0, 20, intervals);
  EXPECT_EQ(one.exposed_ns[at(Part::compute)], 10);
  EXPECT_EQ(one.exposed_ns[at(Part::communication)], 4);
  EXPECT_EQ(one.exposed_ns[at(Part::launch_gaps)], 6);
  EXPECT_EQ(one.hidden_ns[at(Part::expert_loading)], 4);
  EXPECT_EQ(one.hidden_ns[at(Part::communication)], 2);
  EXPECT_EQ(one.hidden_ns[at(Part::router)], 2);
  EXPECT_EQ(one.row_ns[at(Row::attention)], 10);
  EXPECT_EQ(one.row_hidden_ns[at(Row::router)], 2);
}

TEST(Account, RefusesTimeThatRunsBackwards) {
  EXPECT_THROW(account(0, 10, std::vector{compute(5, 4, Row::head)}), std::invalid_argument);
  EXPECT_THROW(account(10, 9, {}), std::invalid_argument);
}

// What is injected moves its own part by just as much, and no other. A step of eight layers in which
// everything happens.
std::vector<StepInterval> step_with(std::int64_t router_spin, std::int64_t idle_nodes,
                                    std::int64_t host_stall, std::int64_t copy_factor, std::int64_t& end) {
  std::vector<StepInterval> intervals;
  std::int64_t now = 0;
  const auto busy = [&](Activity activity, Row row, std::int64_t length) {
    intervals.push_back({now, now + length, activity, row, 0});
    now += length;
  };
  for (int layer = 0; layer < 8; ++layer) {
    busy(Activity::compute, Row::attention, 11'000);
    now += 1'000 + idle_nodes * 550;  // a node that does nothing is time between two that do
    busy(Activity::compute, Row::router, 5'000 + router_spin);
    busy(Activity::host_wait, Row::other, 2'000 + host_stall);
    busy(Activity::expert_copy, Row::other, 30'000 * copy_factor);
    busy(Activity::compute, Row::gate_up, 20'000);
    busy(Activity::compute, Row::down_combine, 12'000);
    busy(Activity::collective, Row::other, 7'000);
  }
  end = now;
  return intervals;
}

Account account_with(std::int64_t router_spin, std::int64_t idle_nodes, std::int64_t host_stall,
                     std::int64_t copy_factor) {
  std::int64_t end = 0;
  const std::vector<StepInterval> intervals =
      step_with(router_spin, idle_nodes, host_stall, copy_factor, end);
  return account(0, end, intervals);
}

void expect_moved(const Account& changed, Part moved, std::int64_t by) {
  const Account before = account_with(0, 0, 0, 1);
  for (std::size_t part = 0; part < kParts; ++part)
    EXPECT_EQ(changed.exposed_ns[part] - before.exposed_ns[part], part == at(moved) ? by : 0)
        << kPartNames[part];
}

TEST(Account, AnInjectionMovesItsOwnPartOnly) {
  expect_moved(account_with(20'000, 0, 0, 1), Part::router, 8 * 20'000);
  expect_moved(account_with(0, 100, 0, 1), Part::launch_gaps, 8 * 100 * 550);
  expect_moved(account_with(0, 0, 200'000, 1), Part::synchronisation, 8 * 200'000);
  expect_moved(account_with(0, 0, 0, 2), Part::expert_loading, 8 * 30'000);
}

}  // namespace
}  // namespace moetune
