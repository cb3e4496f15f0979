// What changed between two profiles, and which rounds of a log they rest on.
#include "tuner/profile_diff.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tuner/round_values.h"

namespace moetune {
namespace {

LaunchProfile profile(const std::string& top_k, double tpot_ms) {
  LaunchProfile made;
  made.model = "tiny-moe";
  made.workload.name = "chat";
  made.hardware.device = "cpu";
  made.hardware.build = "0.1.0 a";
  made.recommended.configuration = {{"top_k", top_k}, {"expert_quant", "int8"}};
  made.recommended.evidence = {{.metric = "tpot_ms",
                                .value = tpot_ms,
                                .low = tpot_ms - 0.05,
                                .high = tpot_ms + 0.05,
                                .p99 = {},
                                .n = 9,
                                .stopped = ""}};
  made.reason = "because";
  return made;
}

TEST(ProfileDiff, ShowsKnobsMetricsAndTheBox) {
  LaunchProfile after = profile("6", 1.2);
  after.hardware.build = "0.1.0 b";
  const std::string text = profile_diff(profile("7", 1.0), after);
  EXPECT_TRUE(has_text(text, "| `top_k` | `7` | `6` |")) << text;
  EXPECT_FALSE(has_text(text, "expert_quant")) << "it is the same";
  EXPECT_TRUE(has_text(text, "+20.0 %, beyond doubt")) << text;
  EXPECT_TRUE(has_text(text, "build 0.1.0 a then, 0.1.0 b now")) << text;
}

TEST(ProfileDiff, SaysThatNothingChanged) {
  const std::string text = profile_diff(profile("7", 1.0), profile("7", 1.05));
  EXPECT_TRUE(has_text(text, "The configuration is the same."));
  EXPECT_TRUE(has_text(text, "+5.0 %, within the intervals")) << text;
  EXPECT_TRUE(has_text(text, "Same box."));
}

Trial turn(std::int64_t number, std::int64_t after, std::int64_t pass, double tpot_ms) {
  Trial trial;
  trial.number = number;
  trial.turn = FinalTurn{.after = after, .finalists = {0, 2}, .pass = pass};
  trial.metrics["tpot_ms"].value = tpot_ms;
  return trial;
}

TEST(RoundValues, AreThoseOfTheNewestRoundInTheOrderOfItsPasses) {
  std::vector<Trial> log = {turn(0, 3, 0, 9.0), turn(2, 3, 0, 9.0), turn(0, 5, 0, 1.0),
                            turn(2, 5, 0, 2.0), turn(2, 5, 1, 2.1), turn(0, 5, 1, 1.1)};
  EXPECT_EQ(round_values(0, log, "tpot_ms"), (std::vector<double>{1.0, 1.1}));
  EXPECT_EQ(round_values(2, log, "tpot_ms"), (std::vector<double>{2.0, 2.1}));
  EXPECT_TRUE(round_values(1, log, "tpot_ms").empty());
  EXPECT_TRUE(round_values(0, log, "ttft_ms").empty());
  EXPECT_TRUE(round_values(0, {}, "tpot_ms").empty());
  log[4].outcome = Outcome::crashed;
  EXPECT_EQ(round_values(2, log, "tpot_ms"), (std::vector<double>{2.0})) << "up to the turn that failed";
}

}  // namespace
}  // namespace moetune
