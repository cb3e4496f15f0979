// One run of a workload: how many tokens of what kind an engine sees, and what is counted.
#include "tuner/targets/workload_run.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/tiny_moe_runs.h"
#include "tuner/targets/latency.h"

namespace moetune {
namespace {

using testing::one_ms_per_token;
using testing::options_with;

class WorkloadRun : public testing::TinyMoeRuns {};

TEST_F(WorkloadRun, ChatIsOnePromptAndItsTokens) {
  const RunTimes times = run({.name = "chat", .prompt_tokens = 40, .output_tokens = 6});
  EXPECT_EQ(times.first_token_ms().size(), 1U);
  EXPECT_EQ(times.first_token_ms()[0], 40.0);
  EXPECT_EQ(times.token_ms, std::vector<double>(5, 1.0)) << "the first token comes from the prompt";
  EXPECT_EQ(times.output_tokens, 6);
  EXPECT_EQ(tokens_, 45);
  EXPECT_DOUBLE_EQ(times.seconds, 0.045);
}

// Steps of 12 tokens: the second prompt begins in the first one's step, and answers go on beside what is left
// of prompts.
TEST_F(WorkloadRun, SequencesStepSideBySide) {
  const RunTimes times = run({.name = "w", .prompt_tokens = 10, .output_tokens = 4, .sequences = 3});
  EXPECT_EQ(times.first_token_ms(), (std::vector<double>{12, 24, 33}));
  EXPECT_EQ(times.token_ms, (std::vector<double>{12, 9, 9, 3, 3, 3, 2, 2, 1}))
      << "ever fewer beside the last one";
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, 3 * 13);
  EXPECT_DOUBLE_EQ(times.seconds, 0.039);
}

// 3 x 10 ms of prompts in steps of 12 tokens, then answers: 3 ms a step while all three decode.
TEST_F(WorkloadRun, ARunThatCannotEndInTimeIsGivenUpAtItsFirstSteps) {
  const Workload workload{.name = "w", .prompt_tokens = 10, .output_tokens = 1000, .sequences = 3};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const auto words_at = [&](double most_seconds) {
    engine.reset_stats();
    return message_of<RunTooLong>(
        [&] { run_workload(engine, workload, text_, 0, one_ms_per_token, most_seconds); });
  };
  EXPECT_EQ(
      words_at(2.9),
      "one run of the workload takes 3.03 s or more, as a step of decoding takes 3 ms, and may take 2.9 s");
  EXPECT_LE(engine.stats().tokens, 60) << "30 of prompts, and what the first steps of decoding take";
  EXPECT_EQ(words_at(0.02), "one run of the workload has spent 0.024 s on prompts and may take 0.02 s");
  EXPECT_NO_THROW(run_workload(engine, workload, text_, 0, one_ms_per_token, 3.1));
}

TEST_F(WorkloadRun, ALimitChangesNothingForARunThatKeepsIt) {
  const Workload workload{.name = "w", .prompt_tokens = 10, .output_tokens = 40, .sequences = 3};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const RunTimes free = run_workload(engine, workload, text_, 0, one_ms_per_token);
  const RunTimes limited = run_workload(engine, workload, text_, 0, one_ms_per_token, 10.0);
  EXPECT_EQ(limited.token_ms, free.token_ms);
  EXPECT_EQ(limited.seconds, free.seconds);
}

Workload agent() {
  return {.name = "agent",
          .prompt_tokens = 20,
          .output_tokens = 4,
          .rounds = 3,
          .round_prompt_tokens = 6,
          .tool_gap_seconds = 0.01};
}

TEST_F(WorkloadRun, RoundsGoOnInTheSameContext) {
  const RunTimes times = run(agent());
  EXPECT_EQ(times.first_token_ms(), (std::vector<double>{20, 7, 7}))
      << "the answer's last token, and six new ones";
  EXPECT_EQ(times.token_ms.size(), 9U);
  EXPECT_EQ(times.output_tokens, 12);
  EXPECT_EQ(tokens_, agent().context_tokens() - 1) << "all but the very last token is fed";
  EXPECT_EQ(times.reused_tokens, 23 + 33);
}

TEST_F(WorkloadRun, ATaskIsAllOfItsRoundsAndNotItsTools) {
  const RunTimes times = run(agent());
  ASSERT_EQ(times.task_ms.size(), 1U);
  EXPECT_NEAR(times.task_ms[0], 43.0, 1e-9);
  EXPECT_NEAR(times.seconds, 0.043, 1e-9) << "nobody waits for a tool";
  EXPECT_EQ(times.tools_played, 2);
  for (const RequestTimes& request : times.requests) EXPECT_EQ(request.queue_ms(), 0.0);
}

TEST_F(WorkloadRun, WithoutPrefixCacheEveryRoundReadsItsContextAgain) {
  const RunTimes times = run(agent(), 0, options_with({{"prefix_cache", "off"}}));
  EXPECT_EQ(times.first_token_ms(), (std::vector<double>{20, 30, 40}));
  EXPECT_EQ(times.reused_tokens, 0);
  EXPECT_EQ(tokens_, 23 + 33 + 43);
}

Workload typed(double gap_seconds) {
  return {.name = "w",
          .prompt_tokens = 320,
          .output_tokens = 1,
          .typed_pieces = 8,
          .piece_gap_seconds = gap_seconds,
          .prewarmed = true};
}

TEST_F(WorkloadRun, OnlyTheLastTypedPieceIsWaitedFor) {
  // Long enough for every piece to be read before the next one comes.
  const RunTimes slowly = run(typed(10.0));
  EXPECT_EQ(slowly.first_token_ms(), std::vector<double>{40.0});
  EXPECT_NEAR(slowly.seconds, 0.320, 1e-9) << "nobody waits for who types";
  EXPECT_EQ(tokens_, 320);
}

TEST_F(WorkloadRun, WithoutReadingAheadThePromptIsReadAfterTheLastKey) {
  Workload cold = typed(10.0);
  cold.prewarmed = false;
  EXPECT_EQ(run(cold).first_token_ms(), std::vector<double>{320.0});
  EXPECT_EQ(run(typed(10.0), 0, options_with({{"prefix_cache", "off"}})).first_token_ms(),
            std::vector<double>{320.0})
      << "nothing could be kept";
  EXPECT_EQ(tokens_, 320);
}

// Typed all at once, the last piece waits for the seven before it; one every 30 ms, for what they lack of 40
// ms each.
TEST_F(WorkloadRun, WhatIsTypedFasterThanItIsReadPilesUp) {
  EXPECT_EQ(run(typed(0.0)).first_token_ms(), std::vector<double>{320.0});
  EXPECT_EQ(run(typed(0.03)).first_token_ms(), std::vector<double>{320.0 - 7 * 30.0});
}

TEST_F(WorkloadRun, APromptShorterThanItsPiecesArrivesTokenByToken) {
  Workload typed{.name = "w", .prompt_tokens = 3, .output_tokens = 2};
  typed.typed_pieces = 8;
  typed.prewarmed = true;
  EXPECT_EQ(run(typed).first_token_ms().size(), 1U);
  EXPECT_EQ(tokens_, 4);
}

TEST_F(WorkloadRun, LongPromptsAreCutIntoSteps) {
  const Workload workload{.name = "w", .prompt_tokens = 700, .output_tokens = 2};
  EXPECT_EQ(limits_of(workload, {}).step_tokens, 512);
  EXPECT_EQ(limits_of(workload, default_options(DeviceKind::cuda)).step_tokens, 700)
      << "a GPU takes up to 2,048 at once";
  run(workload);
  EXPECT_EQ(tokens_, 701);
}

TEST_F(WorkloadRun, LatencyHasIntervalsAndP99WhereTheyAreKnown) {
  const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 9};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
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
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const LatencyResult result =
      measure_latency(engine, workload, text_, 0.05, [](const std::string&) {}, {}, one_ms_per_token);
  EXPECT_FALSE(result.metrics.contains("tpot_ms"));
  EXPECT_TRUE(result.metrics.contains("ttft_ms"));
}

TEST_F(WorkloadRun, TypedPromptsAreAlsoTimedWithoutReadingAhead) {
  const Workload workload = typed(10.0);
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const LatencyResult result =
      measure_latency(engine, workload, text_, 0.05, [](const std::string&) {}, {}, one_ms_per_token);
  EXPECT_EQ(result.metrics.at("ttft_ms").value, 40.0);
  EXPECT_EQ(result.metrics.at("ttft_whole_ms").value, 320.0);
  EXPECT_NE(result.metrics.at("ttft_ms").stopped.find("counted"), std::string::npos)
      << "pauses were not waited for";
}

TEST_F(WorkloadRun, AnAgentsTaskIsMeasuredAsAWhole) {
  Workload workload = agent();
  workload.slo = {"task", 43.5};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const LatencyResult result =
      measure_latency(engine, workload, text_, 0.05, [](const std::string&) {}, {}, one_ms_per_token);
  EXPECT_NEAR(result.metrics.at("task_ms").value, 43.0, 1e-9);
  EXPECT_FALSE(result.metrics.contains("task_tax_ms"))
      << "waits and gaps are a part of it that nobody recorded";
  EXPECT_NEAR(result.metrics.at("task_goodput_per_s").value, 1.0 / 0.043, 1e-6);
  EXPECT_FALSE(result.metrics.contains("queue_ms")) << "there is one request at a time";
}

TEST_F(WorkloadRun, ATasksTaxNeedsARecording) {
  Workload workload = agent();
  workload.slo = {"task_tax", 2.0};
  Engine engine(checkpoint_, {}, limits_of(workload, {}));
  const auto measured = [&](std::optional<double> recorded_ms) {
    return measure_latency(
               engine, workload, text_, 0.05, [](const std::string&) {}, {}, one_ms_per_token, {},
               [&] { return recorded_ms; })
        .metrics;
  };
  const Metrics kept = measured(1.5);
  EXPECT_EQ(kept.at("task_tax_ms").value, 1.5) << "all experts are in memory: only what was recorded";
  EXPECT_NEAR(kept.at("task_goodput_per_s").value, 1.0 / 0.043, 1e-6);
  EXPECT_EQ(measured(2.5).at("task_goodput_per_s").value, 0.0);
  EXPECT_FALSE(measured(std::nullopt).contains("task_goodput_per_s"));
}

TEST_F(WorkloadRun, WaitingForExpertsIsCountedForEachRunAlone) {
  const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 9};
  const EngineOptions options = options_with({{"expert_cache", "0.25"}});
  Engine engine(checkpoint_, options, limits_of(workload, options));
  const double before = engine.stats().expert_load_seconds;
  double loading_ms = 0.0;
  for (std::uint64_t number = 0; number < 3; ++number)
    loading_ms += run_workload(engine, workload, text_, number, one_ms_per_token).loading_ms;
  EXPECT_GT(loading_ms, 0.0);
  EXPECT_NEAR(loading_ms, 1e3 * (engine.stats().expert_load_seconds - before), 1e-6 * loading_ms);
}

TEST(LoadRules, AKnobThatCouldHaveNoEffectIsNoConfiguration) {
  const Workload chat{.name = "chat", .sequences = 2};
  EXPECT_FALSE(objection_to_load(chat, {}));
  EXPECT_FALSE(objection_to_load(chat, options_with({{"max_sequences", "2"}})));
  EXPECT_EQ(objection_to_load(chat, options_with({{"max_sequences", "3"}})).value().knob, "max_sequences");
  EXPECT_EQ(objection_to_load(chat, options_with({{"prefix_cache", "off"}})).value().knob, "prefix_cache");
  EXPECT_FALSE(objection_to_load(agent(), options_with({{"prefix_cache", "off"}})));
  EXPECT_FALSE(objection_to_load(typed(0.1), options_with({{"prefix_cache", "off"}})));
  Workload busy = chat;
  busy.poisson_arrivals = true;
  EXPECT_FALSE(objection_to_load(busy, options_with({{"max_sequences", "4"}})))
      << "four requests can be there at once";
  EXPECT_TRUE(objection_to_load(busy, options_with({{"max_sequences", "5"}})));
  EXPECT_EQ(limits_of(busy, options_with({{"max_sequences", "4"}})).sequences, 4);
}

TEST(LoadRules, CountedPausesAreNamed) {
  EXPECT_EQ(pauses_note({.name = "chat"}), "");
  EXPECT_NE(pauses_note(agent()).find("10 ms of each 10 ms are played"), std::string::npos)
      << pauses_note(agent());
  EXPECT_NE(pauses_note(typed(0.1)).find("between keys are counted"), std::string::npos);
  EXPECT_NE(pauses_note({.name = "w", .poisson_arrivals = true}).find("idle time"), std::string::npos);
}

}  // namespace
}  // namespace moetune
