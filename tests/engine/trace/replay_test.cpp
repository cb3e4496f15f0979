// Counts of a replayed trace are those of the engine's real expert cache: every policy, every prefetch, every
// size of an LRU.
#include "engine/trace/replay.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "engine/tokenizer.h"
#include "engine/trace/recorder.h"
#include "engine/trace/stack_distances.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

constexpr int kPromptTokens = 24;
constexpr int kStepTokens = 16;  // so that a prompt is two steps

TracePlan plan_of(const Checkpoint& checkpoint, int sequences, int tokens) {
  const TokenSource text = calibration_tokens(checkpoint, "", sequences * tokens);
  TracePlan plan{.sequences = {}, .prompt_tokens = kPromptTokens, .kind_names = {"text"}};
  for (int i = 0; i < sequences; ++i) {
    plan.sequences.push_back({text.window(static_cast<std::uint64_t>(i), tokens), {}});
    plan.sequences.back().kinds.assign(plan.sequences.back().ids.size(), 0);
  }
  return plan;
}

struct Recorded {
  std::shared_ptr<const Checkpoint> checkpoint;
  EngineLimits limits;
  RoutingTrace trace;
  std::unique_ptr<Engine> engine;  // kept: only its cache changes

  explicit Recorded(const std::string& name, int sequences = 3, int tokens = 56)
      : checkpoint(golden(name).checkpoint), limits(trace_limits(tokens, kStepTokens)) {
    engine = std::make_unique<Engine>(checkpoint, EngineOptions{}, limits);
    trace = record_trace(*engine, plan_of(*checkpoint, sequences, tokens));
  }
  SlotDirectory::Shape shape(const EngineOptions& options) const {
    return {.layers = trace.layers,
            .experts = trace.experts,
            .slots = static_cast<int>(cache_slots(checkpoint->spec(), options)),
            .policy = options.cache_policy};
  }
  std::vector<SequenceRun> run(const EngineOptions& options) const {
    EXPECT_TRUE(engine->reconfigure(options));
    return run_trace(*engine, trace);
  }
};

std::int64_t sum_of(const std::vector<SequenceRun>& runs, std::int64_t SequenceRun::* field) {
  return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                         [&](std::int64_t sum, const SequenceRun& run) { return sum + run.*field; });
}

EngineOptions with_slots(const ModelSpec& spec, const Settings& settings, int slots) {
  EngineOptions options = options_with(settings);
  options.expert_cache_bytes = slots * expert_bytes(spec, options);
  return options;
}

class ReplayOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ReplayOf, EveryPolicyAndPrefetchCountsWhatTheEngineCounts) {
  const CacheFolder folder;
  const Recorded recorded(GetParam());
  const ModelSpec& spec = recorded.checkpoint->spec();
  const int least = recorded.trace.layers * recorded.trace.k;
  const int all = recorded.trace.layers * recorded.trace.experts;
  for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"})
    for (const char* prefetch : {"none", "repeat", "next_gate", "markov", "table"})
      for (const int slots : {least, (least + all) / 2}) {
        const std::string what = fmt::format("{}, {}, {} slots", policy, prefetch, slots);
        const EngineOptions options =
            with_slots(spec, {{"cache_policy", policy}, {"prefetch", prefetch}}, slots);
        const ReplayCounts counts = replay(recorded.trace, recorded.shape(options), options.prefetch);
        const std::vector<SequenceRun> runs = recorded.run(options);
        EXPECT_EQ(counts.hits, sum_of(runs, &SequenceRun::hits)) << what;
        EXPECT_EQ(counts.misses, sum_of(runs, &SequenceRun::misses)) << what;
        EXPECT_EQ(counts.ahead, sum_of(runs, &SequenceRun::ahead)) << what;
        EXPECT_EQ(counts.ahead_in_vain, sum_of(runs, &SequenceRun::ahead_in_vain)) << what;
        EXPECT_GT(counts.misses, 0) << what;
      }
}
INSTANTIATE_TEST_SUITE_P(Checkpoints, ReplayOf, ::testing::Values("tiny_moe", "qwen3_moe_shards"),
                         [](const auto& checkpoint) { return std::string(checkpoint.param); });

// The acceptance line: predicted from one pass, within 0.2 points of what the cache counts, for every size
// there is.
TEST(LruCurve, PredictsTheRealCacheAtEverySize) {
  const CacheFolder folder;
  const Recorded recorded("tiny_moe");
  const ModelSpec& spec = recorded.checkpoint->spec();
  const LruCurve curve = lru_curve(recorded.trace);
  const std::vector<LruCurve> by_layer = layer_lru_curves(recorded.trace);
  const int least = recorded.trace.layers * recorded.trace.k;
  const int all = recorded.trace.layers * recorded.trace.experts;
  EXPECT_LE(curve.exact_from, least);
  for (int slots = least; slots < all; ++slots) {
    const std::vector<SequenceRun> runs = recorded.run(with_slots(spec, {{"cache_policy", "lru"}}, slots));
    const std::int64_t hits = sum_of(runs, &SequenceRun::hits);
    ASSERT_EQ(curve.lookups, hits + sum_of(runs, &SequenceRun::misses));
    const double measured = static_cast<double>(hits) / static_cast<double>(curve.lookups);
    EXPECT_NEAR(curve.hit_rate(slots), measured, 0.002) << slots;
    EXPECT_EQ(curve.hits[static_cast<std::size_t>(slots)], hits) << slots << ": exact, not only near";
    const ReplayCounts counts =
        replay(recorded.trace, recorded.shape(with_slots(spec, {{"cache_policy", "lru"}}, slots)));
    EXPECT_EQ(curve.layer_steps - curve.whole[static_cast<std::size_t>(slots)], counts.missing_layers)
        << slots;
  }
  // A layer's own cache is exact where the largest step is one wave.
  const int widest = std::ranges::max_element(by_layer, {}, &LruCurve::exact_from)->exact_from;
  EXPECT_GT(widest, recorded.trace.k) << "prompts ask for more";
  for (int of_layer = widest; of_layer < recorded.trace.experts; ++of_layer) {
    const SlotDirectory::Shape shape{.layers = recorded.trace.layers,
                                     .experts = recorded.trace.experts,
                                     .slots = recorded.trace.layers * of_layer,
                                     .policy = CachePolicy::layer_lru};
    std::int64_t hits = 0;
    for (const LruCurve& layer : by_layer) hits += layer.hits[static_cast<std::size_t>(of_layer)];
    EXPECT_EQ(hits, replay(recorded.trace, shape).hits) << of_layer;
  }
}

TEST(Prewarm, SavesThePromptItsMisses) {
  const Recorded recorded("tiny_moe", 2);
  const auto first = recorded.trace.part([](std::int32_t sequence) { return sequence == 0; });
  const auto second = recorded.trace.part([](std::int32_t sequence) { return sequence == 1; });
  const auto hottest = hottest_experts(recorded.checkpoint->spec(), first);
  ASSERT_EQ(std::ssize(hottest), recorded.trace.layers * recorded.trace.experts);
  ASSERT_TRUE(recorded.engine->reconfigure(options_with({{"expert_cache", "0.5"}})));
  const SequenceRun cold = run_trace(*recorded.engine, second).front();
  const SequenceRun warm = run_trace(*recorded.engine, second, hottest).front();
  EXPECT_LT(warm.prompt_misses, cold.prompt_misses);
}

// By hand: two layers of three experts, one expert a token.
RoutingTrace small_trace(const std::vector<std::vector<std::int32_t>>& tokens, int layers, int experts,
                         int k) {
  RoutingTrace trace;
  trace.layers = layers;
  trace.experts = experts;
  trace.k = k;
  trace.kind_names = {"text"};
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    trace.token_ids.push_back(static_cast<std::int32_t>(token));
    trace.sequences.push_back(0);
    trace.positions.push_back(static_cast<std::int32_t>(token));
    trace.steps.push_back(static_cast<std::int32_t>(token));
    trace.decodes.push_back(1);
    trace.kinds.push_back(0);
    trace.expert_ids.insert(trace.expert_ids.end(), tokens[token].begin(), tokens[token].end());
  }
  trace.expert_weights.assign(trace.expert_ids.size(), 1.0F);
  trace.foreseen.assign(trace.expert_ids.size(), -1);
  return trace;
}

TEST(LruCurve, CountsDistancesByHand) {
  // Requests: (0,a)(1,b)(0,a)(1,c)(0,d)(1,b): only the second (0,a), after one other, and the last (1,b),
  // after three, come again.
  const LruCurve curve = lru_curve(small_trace({{0, 1}, {0, 2}, {1, 1}}, 2, 3, 1));
  EXPECT_EQ(curve.lookups, 6);
  EXPECT_EQ(curve.hits, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(curve.layer_steps, 6);
  EXPECT_EQ(curve.whole, curve.hits) << "a layer asks for one expert: it finds all it asked for, or none";
  EXPECT_EQ(curve.exact_from, 1);
}

TEST(StaticCurve, TakesTheMostAskedFor) {
  const StaticCurve curve = static_curve(small_trace({{0, 1}, {0, 2}, {0, 1}}, 2, 3, 1));
  EXPECT_EQ(curve.hits, (std::vector<std::int64_t>{0, 3, 5, 6, 6, 6, 6}));
  EXPECT_EQ(curve.hottest_first[0], 0);
  EXPECT_EQ(curve.hottest_first[1], 4);
}

TEST(Replay, CountsGuessesAndWhatTheyCostInVain) {
  const RoutingTrace trace = small_trace({{0, 1}, {2, 2}, {0, 1}}, 2, 3, 1);
  const SlotDirectory::Shape shape{.layers = 2, .experts = 3, .slots = 4, .policy = CachePolicy::layer_lru};
  // Always expert 1, which is right for layer 1 at the first and the third token.
  const ReplayCounts counts = replay(trace, shape,
                                     Guesser{.guess =
                                                 [](const LayerStep& step, const LayerStep*, std::size_t) {
                                                   return step.layer == 1 ? std::vector<std::int32_t>{1}
                                                                          : std::vector<std::int32_t>{};
                                                 },
                                             .learn = {}});
  EXPECT_EQ(counts.guesses, 3);
  EXPECT_EQ(counts.right_guesses, 2);
  EXPECT_EQ(counts.wanted, 3);
  EXPECT_EQ(counts.ahead, 1) << "then it is there";
  EXPECT_EQ(counts.ahead_in_vain, 0);
  EXPECT_EQ(counts.hits, 3) << "layer 1 twice by the guess, layer 0 once by itself";
  EXPECT_EQ(counts.misses, 3);
}

}  // namespace
}  // namespace moetune::testing
