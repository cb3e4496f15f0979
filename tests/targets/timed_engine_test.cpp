// The clock of a run: what the host and the device say of some steps, put together.
#include "tuner/targets/timed_engine.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_moe_runs.h"

namespace moetune {
namespace {

TEST(ClockAfterSteps, TheHostsShareComesFirst) {
  const std::vector<double> seconds{0.002, 0.003};
  const std::vector<double> after = clock_after_steps(100.0, 9.0, seconds);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_NEAR(after[0], 100.0 + 4.0 + 2.0, 1e-9);
  EXPECT_NEAR(after[1], 109.0, 1e-9) << "all of it is in the last step's time";
}

TEST(ClockAfterSteps, ADeviceThatCountsMoreThanTheHostIsBelieved) {
  const std::vector<double> seconds{0.002, 0.003};
  EXPECT_NEAR(clock_after_steps(0.0, 4.9, seconds).back(), 5.0, 1e-9) << "the clocks differ by a little";
  EXPECT_TRUE(clock_after_steps(7.0, 1.0, {}).empty());
}

class TimedEngineRuns : public testing::TinyMoeRuns {};

TEST_F(TimedEngineRuns, TheClockStandsAtTheEndOfTheLastStep) {
  const Workload workload{.name = "w", .prompt_tokens = 2, .output_tokens = 4};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  TimedEngine timed(engine);
  const std::vector<StepToken> prompt{{.id = 1, .sequence = 0, .position = 0, .wants_logits = true}};
  timed.forward(prompt);
  const double read_ms = timed.now_ms();
  EXPECT_GT(read_ms, 0.0);
  const std::vector<StepToken> first{{.id = 1, .sequence = 0, .position = 1}};
  const std::vector<std::int32_t> forced{2, 3, 4};
  const std::vector<double> after =
      timed.decode({.first = first, .steps = 3, .forced = forced, .sampling = {}});
  ASSERT_EQ(after.size(), 3U);
  EXPECT_GT(after[0], read_ms);
  EXPECT_GT(after[1], after[0]);
  EXPECT_GT(after[2], after[1]);
  EXPECT_EQ(timed.now_ms(), after[2]);
}

}  // namespace
}  // namespace moetune
