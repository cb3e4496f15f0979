#include "engine/sync_tax/timeline.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

TEST(Timeline, IsAChromeTraceInMicrosecondsFromTheFirstStep) {
  const std::vector<StepInterval> intervals = {{5'000, 6'500, Activity::compute, Row::router, 3},
                                               {6'500, 9'000, Activity::expert_copy, Row::other, 3}};
  const std::vector<RecordedStep> steps = {{.phase = Phase::decode,
                                            .tokens = 2,
                                            .begin_ns = 4'000,
                                            .end_ns = 10'000,
                                            .first = 0,
                                            .count = 2,
                                            .causes = {}}};
  const nlohmann::json trace = nlohmann::json::parse(timeline_of(steps, intervals, "a \"model\""));
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") events.push_back(event);
    if (event["name"] != "process_name") continue;
    EXPECT_EQ(event["args"]["name"], "a \"model\"");
  }
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["name"], "decode");
  EXPECT_EQ(events[0]["dur"], 6.0);
  EXPECT_EQ(events[0]["args"]["tokens"], 2);
  EXPECT_EQ(events[1]["name"], "router");
  EXPECT_EQ(events[1]["ts"], 1.0);
  EXPECT_EQ(events[1]["dur"], 1.5);
  EXPECT_EQ(events[1]["args"]["layer"], 3);
  EXPECT_EQ(events[2]["name"], "expert_loading");
  EXPECT_NE(events[1]["tid"], events[2]["tid"]);
}

TEST(Timeline, WithoutStepsIsATraceToo) {
  EXPECT_TRUE(nlohmann::json::parse(timeline_of({}, {}, "x"))["traceEvents"].is_array());
}

}  // namespace
}  // namespace moetune
