// One run of a workload: how many tokens of what kind an engine sees, and what is counted.
#include "tuner/targets/workload_run.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tests/support/tiny_moe_runs.h"
#include "tuner/targets/latency.h"

namespace moetune {
namespace {

class WorkloadRun : public testing::TinyMoeRuns {};

TEST_F(WorkloadRun, ChatIsOnePromptAndItsTokens) {
  const RunTimes times = run({.name = "chat", .prompt_tokens = 40, .output_tokens = 6});
  EXPECT_EQ(times.first_token_ms.size(), 1U);
  EXPECT_EQ(times.token_ms.size(), 5U) << "the first token comes from the prompt";
  EXPECT_EQ(times.output_tokens, 6);
  EXPECT_EQ(tokens_, 45);
  EXPECT_GT(times.mean_token_ms(), 0.0);
  EXPECT_GE(times.seconds * 1e3, times.first_token_ms[0] + times.token_ms[0]);
}

TEST_F(WorkloadRun, SequencesStepSideBySide) {
  const RunTimes times = run({.name = "w", .prompt_tokens = 10, .output_tokens = 4, .sequences = 3});
  EXPECT_EQ(times.first_token_ms.size(), 3U);
  EXPECT_EQ(times.token_ms.size(), 3U);
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, 3 * 13);
  EXPECT_LT(times.first_token_ms[0], times.first_token_ms[2]) << "a later prompt waits for those before it";
}

TEST_F(WorkloadRun, RoundsGoOnInTheSameContext) {
  const Workload agent{.name = "agent", .prompt_tokens = 20, .output_tokens = 4, .rounds = 3, .round_prompt_tokens = 6};
  const RunTimes times = run(agent);
  EXPECT_EQ(times.first_token_ms.size(), 3U);
  EXPECT_EQ(times.token_ms.size(), 9U);
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, agent.context_tokens() - 1) << "all but the very last token is fed";
}

TEST_F(WorkloadRun, OnlyTheLastTypedPieceIsWaitedFor) {
  const Workload whole{.name = "w", .prompt_tokens = 320, .output_tokens = 1};
  Workload typed = whole;
  typed.typed_pieces = 8;
  typed.piece_gap_seconds = 10.0;  // long enough for every piece to be read before the next one comes
  EXPECT_LT(run(typed).mean_first_token_ms(), run(whole).mean_first_token_ms());
  EXPECT_EQ(tokens_, 320);
}

// Typed all at once, the last piece waits for the seven before it.
TEST_F(WorkloadRun, WhatIsTypedFasterThanItIsReadPilesUp) {
  Workload typed{.name = "w", .prompt_tokens = 320, .output_tokens = 1};
  typed.typed_pieces = 8;
  const RunTimes at_once = run(typed);
  typed.piece_gap_seconds = 10.0;
  const RunTimes slowly = run(typed);
  EXPECT_GT(at_once.mean_first_token_ms(), 3.0 * slowly.mean_first_token_ms());
  EXPECT_LT(slowly.seconds, 5.0) << "nobody waits for who types";
}

TEST_F(WorkloadRun, APromptShorterThanItsPiecesArrivesTokenByToken) {
  Workload typed{.name = "w", .prompt_tokens = 3, .output_tokens = 2};
  typed.typed_pieces = 8;
  EXPECT_EQ(run(typed).first_token_ms.size(), 1U);
  EXPECT_EQ(tokens_, 4);
}

TEST_F(WorkloadRun, LongPromptsAreCutIntoSteps) {
  const Workload workload{.name = "w", .prompt_tokens = 700, .output_tokens = 2};
  EXPECT_EQ(limits_of(workload, DeviceKind::cpu).step_tokens, 512);
  EXPECT_EQ(limits_of(workload, DeviceKind::cuda).step_tokens, 700) << "a GPU takes up to 2,048 at once";
  run(workload);
  EXPECT_EQ(tokens_, 701);
}

TEST_F(WorkloadRun, LatencyHasIntervalsAndP99WhereTheyAreKnown) {
  const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 9};
  Engine engine(checkpoint_, {}, limits_of(workload, DeviceKind::cpu));
  const LatencyResult result = measure_latency(engine, workload, text_, 0.3, [](const std::string&) {});
  const Measurement& tpot = result.metrics.at("tpot_ms");
  EXPECT_GT(tpot.value, 0.0);
  ASSERT_TRUE(tpot.low && tpot.high);
  EXPECT_LE(*tpot.low, tpot.value);
  EXPECT_GE(*tpot.high, tpot.value);
  EXPECT_EQ(tpot.n, 8 * result.metrics.at("ttft_ms").n) << "tokens, not runs";
  EXPECT_EQ(tpot.p99.has_value(), tpot.n >= 368);
  EXPECT_FALSE(tpot.stopped.empty());
  EXPECT_GE(result.metrics.at("ttft_ms").n, 6) << "fewer have no 95 % interval of the median";
  EXPECT_FALSE(result.metrics.at("tokens_per_s").p99.has_value());
  EXPECT_EQ(result.stats.tokens, result.metrics.at("ttft_ms").n * 16) << "warm-up is left out of the counters";
}

TEST_F(WorkloadRun, AnAnswerOfOneTokenHasNoTimePerToken) {
  const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 1};
  Engine engine(checkpoint_, {}, limits_of(workload, DeviceKind::cpu));
  const LatencyResult result = measure_latency(engine, workload, text_, 0.05, [](const std::string&) {});
  EXPECT_FALSE(result.metrics.contains("tpot_ms"));
  EXPECT_TRUE(result.metrics.contains("ttft_ms"));
}

}  // namespace
}  // namespace moetune
