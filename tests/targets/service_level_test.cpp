// Who keeps a service level.
#include "tuner/targets/service_level.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

RunTimes two_requests() {
  RunTimes times;
  // First tokens after 15 and 40 ms, of which 5 and 10 in the queue; 2 and 4 ms per token.
  times.requests = {
      {.arrived_ms = 5, .began_ms = 10, .first_ms = 20, .last_ms = 40, .task = 0, .tokens = 11},
      {.arrived_ms = 10, .began_ms = 20, .first_ms = 50, .last_ms = 90, .task = 1, .tokens = 11}};
  times.task_ms = {35, 80};
  times.loading_ms = 6.0;
  times.communication_ms = 4.0;
  return times;
}

std::int64_t kept(const std::string& metric, double limit_ms) {
  return kept_of(two_requests(), {metric, limit_ms}, 0.0);
}

TEST(ServiceLevel, IsAboutTheSingleRequest) {
  EXPECT_EQ(kept("ttft", 14.9), 0);
  EXPECT_EQ(kept("ttft_p99", 15.0), 1) << "from the arrival, the queue included";
  EXPECT_EQ(kept("ttft", 40.0), 2);
  EXPECT_EQ(kept("tpot_p99", 2.0), 1);
  EXPECT_EQ(kept("tpot", 4.0), 2);
}

TEST(ServiceLevel, OrAboutTheTask) {
  EXPECT_EQ(kept("task", 34.0), 0);
  EXPECT_EQ(kept("task_p99", 35.0), 1);
  EXPECT_EQ(kept("task_tax", 5.0), 2) << "the mean of both tasks";
  EXPECT_EQ(kept("task_tax", 4.9), 0);
}

TEST(ServiceLevel, ATasksTaxHasWaitsAndGapsInIt) {
  EXPECT_EQ(task_tax_ms(two_requests(), 1.5), 6.5) << "5 ms of loads and collectives, 1.5 ms recorded";
  EXPECT_EQ(kept_of(two_requests(), {"task_tax", 6.4}, 1.5), 0);
  EXPECT_EQ(kept_of(two_requests(), {"task_tax", 6.5}, 1.5), 2);
}

TEST(ServiceLevel, AnAnswerOfOneTokenKeepsEveryTimePerToken) {
  RunTimes times = two_requests();
  for (RequestTimes& request : times.requests) request.tokens = 1;
  EXPECT_EQ(kept_of(times, {"tpot", 0.001}, 0.0), 2);
}

TEST(ServiceLevel, EveryMetricThatMayBeAskedForIsJudged) {
  for (const std::string& metric : slo_metrics()) {
    EXPECT_EQ(kept(metric, 1e9), 2) << metric;
    EXPECT_EQ(kept(metric, 1e-9), 0) << metric;
  }
}

}  // namespace
}  // namespace moetune
