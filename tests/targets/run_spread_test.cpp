// Each run counts once, however many steps it has.
#include "tuner/targets/run_spread.h"

#include <array>

#include <gtest/gtest.h>

namespace moetune {
namespace {

Account step(std::int64_t length_ns, std::int64_t gap_ns) {
  Account made;
  made.length_ns = length_ns;
  made.exposed_ns[static_cast<std::size_t>(Part::launch_gaps)] = gap_ns;
  made.exposed_ns[static_cast<std::size_t>(Part::compute)] = length_ns - gap_ns;
  return made;
}

TEST(RunSpread, StepsOfARunAreOneValue) {
  const std::vector<Account> steps{step(100, 10), step(100, 10), step(900, 10),
                                   step(100, 10), step(200, 30), step(200, 30)};
  const std::vector<std::size_t> ends{4, 4, 6};  // the second run has no step
  EXPECT_EQ(length_by_run(steps, ends), (std::vector<double>{100.0, 200.0})) << "middle half of each";
  EXPECT_EQ(tax_by_run(steps, ends, {}), (std::vector<double>{10.0, 30.0}));
}

TEST(RunSpread, FromSixRunsOnItIsAnInterval) {
  const std::array many{1.0, 5.0, 2.0, 4.0, 3.0, 2.5, 3.5, 4.5, 1.5};
  const auto interval = spread_over_runs(many, 3.0);
  ASSERT_TRUE(interval);
  EXPECT_FALSE(interval->is_range);
  EXPECT_EQ(interval->runs, 9);
  EXPECT_GT(interval->ns.low, 1.0);
  EXPECT_LT(interval->ns.high, 5.0);
  const auto range = spread_over_runs(std::array{2.0, 1.0}, 2.5);
  ASSERT_TRUE(range);
  EXPECT_TRUE(range->is_range);
  EXPECT_EQ(range->ns.low, 1.0);
  EXPECT_EQ(range->ns.high, 2.5) << "the value itself lies in it";
  EXPECT_FALSE(spread_over_runs(std::array{2.0}, 2.0));
}

}  // namespace
}  // namespace moetune
