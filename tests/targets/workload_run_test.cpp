// One run of a workload: how many tokens of what kind an engine sees, and what is counted.
#include "tuner/targets/workload_run.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tests/support/tiny_moe_runs.h"
#include "tuner/targets/latency.h"

namespace moetune {
namespace {

using testing::one_ms_per_token;

class WorkloadRun : public testing::TinyMoeRuns {};

TEST_F(WorkloadRun, ChatIsOnePromptAndItsTokens) {
  const RunTimes times = run({.name = "chat", .prompt_tokens = 40, .output_tokens = 6});
  EXPECT_EQ(times.first_token_ms.size(), 1U);
  EXPECT_EQ(times.first_token_ms[0], 40.0);
  EXPECT_EQ(times.token_ms, std::vector<double>(5, 1.0)) << "the first token comes from the prompt";
  EXPECT_EQ(times.output_tokens, 6);
  EXPECT_EQ(tokens_, 45);
  EXPECT_DOUBLE_EQ(times.seconds, 0.045);
}

TEST_F(WorkloadRun, SequencesStepSideBySide) {
  const RunTimes times = run({.name = "w", .prompt_tokens = 10, .output_tokens = 4, .sequences = 3});
  EXPECT_EQ(times.first_token_ms, (std::vector<double>{10, 20, 30}))
      << "a later prompt waits for those before it";
  EXPECT_EQ(times.token_ms, std::vector<double>(3, 3.0));
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, 3 * 13);
}

TEST_F(WorkloadRun, RoundsGoOnInTheSameContext) {
  const Workload agent{
      .name = "agent", .prompt_tokens = 20, .output_tokens = 4, .rounds = 3, .round_prompt_tokens = 6};
  const RunTimes times = run(agent);
  EXPECT_EQ(times.first_token_ms.size(), 3U);
  EXPECT_EQ(times.token_ms.size(), 9U);
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, agent.context_tokens() - 1) << "all but the very last token is fed";
}

TEST_F(WorkloadRun, OnlyTheLastTypedPieceIsWaitedFor) {
  Workload typed{.name = "w", .prompt_tokens = 320, .output_tokens = 1};
  EXPECT_EQ(run(typed).first_token_ms, std::vector<double>{320.0});
  typed.typed_pieces = 8;
  typed.piece_gap_seconds = 10.0;  // long enough for every piece to be read before the next one comes
  const RunTimes slowly = run(typed);
  EXPECT_EQ(slowly.first_token_ms, std::vector<double>{40.0});
  EXPECT_NEAR(slowly.seconds, 0.320, 1e-9) << "nobody waits for who types";
  EXPECT_EQ(tokens_, 320);
}

// Typed all at once, the last piece waits for the seven before it; one every 30 ms, for what they lack of 40
// ms each.
TEST_F(WorkloadRun, WhatIsTypedFasterThanItIsReadPilesUp) {
  Workload typed{.name = "w", .prompt_tokens = 320, .output_tokens = 1};
  typed.typed_pieces = 8;
  EXPECT_EQ(run(typed).first_token_ms, std::vector<double>{320.0});
  typed.piece_gap_seconds = 0.03;
  EXPECT_EQ(run(typed).first_token_ms, std::vector<double>{320.0 - 7 * 30.0});
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
  const LatencyResult result =
      measure_latency(engine, workload, text_, 0.3, [](const std::string&) {}, {}, one_ms_per_token);
  const Measurement& tpot = result.metrics.at("tpot_ms");
  EXPECT_EQ(tpot.value, 1.0);
  EXPECT_EQ(result.metrics.at("ttft_ms").value, 8.0);
  ASSERT_TRUE(tpot.low && tpot.high);
  EXPECT_LE(*tpot.low, tpot.value);
  EXPECT_GE(*tpot.high, tpot.value);
  EXPECT_EQ(tpot.n, 8 * result.metrics.at("ttft_ms").n) << "tokens, not runs";
  EXPECT_EQ(tpot.p99.has_value(), tpot.n >= 368);
  EXPECT_FALSE(tpot.stopped.empty());
  EXPECT_GE(result.metrics.at("ttft_ms").n, 6) << "fewer have no 95 % interval of the median";
  EXPECT_FALSE(result.metrics.at("tokens_per_s").p99.has_value());
  EXPECT_EQ(result.stats.tokens, result.metrics.at("ttft_ms").n * 16)
      << "warm-up is left out of the counters";
}

TEST_F(WorkloadRun, AnAnswerOfOneTokenHasNoTimePerToken) {
  const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 1};
  Engine engine(checkpoint_, {}, limits_of(workload, DeviceKind::cpu));
  const LatencyResult result =
      measure_latency(engine, workload, text_, 0.05, [](const std::string&) {}, {}, one_ms_per_token);
  EXPECT_FALSE(result.metrics.contains("tpot_ms"));
  EXPECT_TRUE(result.metrics.contains("ttft_ms"));
}

}  // namespace
}  // namespace moetune
