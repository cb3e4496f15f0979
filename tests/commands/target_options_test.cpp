#include "tuner/commands/target_options.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

double limit(const TargetOptions& options, double latency_seconds, double budget_seconds) {
  return options.runner_settings(Study{}, latency_seconds, budget_seconds).trial_limit_seconds;
}

TEST(TrialLimit, IsTheBudgetWhereThatIsLessThanTheUsualLimit) {
  const TargetOptions usual;
  EXPECT_EQ(limit(usual, 2.0, 180.0), 180.0);
  EXPECT_EQ(limit(usual, 2.0, 5.0), 30.0) << "a busy machine needs more than a small budget for one trial";
  EXPECT_EQ(limit(usual, 2.0, 15.0), 45.0) << "but nobody waits for more than three budgets";
  EXPECT_EQ(limit(usual, 2.0, 40.0), 60.0);
  EXPECT_EQ(limit(usual, 2.0, 7200.0), 600.0);
  EXPECT_EQ(limit(usual, 2.0, 0.0), 600.0) << "no budget";
  EXPECT_EQ(limit(usual, 200.0, 180.0), 800.0) << "timing alone takes that long";
}

TEST(RunLimit, LeavesTwoRunsInAThirdOfTheBudget) {
  const TargetOptions usual;
  EXPECT_EQ(usual.run_limit_seconds(2.0, 600.0), 100.0);
  EXPECT_EQ(usual.run_limit_seconds(2.0, 5.0), 15.0)
      << "a small budget does not end what a busy machine slows down";
  EXPECT_EQ(usual.run_limit_seconds(2.0, 7200.0), 300.0);
  EXPECT_EQ(usual.run_limit_seconds(2.0, 0.0), 300.0) << "no budget";
  EXPECT_EQ(usual.run_limit_seconds(200.0, 180.0), 400.0) << "timing alone takes that long";
  TargetOptions asked;
  asked.trial_limit_seconds = 7.0;
  EXPECT_EQ(asked.run_limit_seconds(2.0, 180.0), 3.5);
}

TEST(TrialLimit, IsWhatIsAskedFor) {
  TargetOptions asked;
  asked.trial_limit_seconds = 7.0;
  EXPECT_EQ(limit(asked, 2.0, 180.0), 7.0);
}

}  // namespace
}  // namespace moetune
