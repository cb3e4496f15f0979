// Guesses, what they cost, and that they change no bit.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/expert_predictor.h"
#include "engine/facts/error.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(ByRank, TakesTheBestOfEveryTokenFirstAndNobodyTwice) {
  EXPECT_EQ(by_rank(Ids{4, 1, 2, 1, 4, 3}, 3, 9), (Ids{4, 1, 2, 3}));
  EXPECT_EQ(by_rank(Ids{4, 1, 2, 1, 4, 3}, 3, 2), (Ids{4, 1}));
  EXPECT_EQ(by_rank(Ids{-1, 1}, 2, 9), (Ids{1}));
}

TEST(Predictor, RepeatsTheLayersLastChoice) {
  ExpertPredictor repeat(Prefetch::repeat, 2, 8);
  const Ids token{7};
  EXPECT_TRUE(repeat.predict(1, {.ids = Ids{1, 2}, .token_ids = token, .k = 2}, 9).empty()) << "nothing seen";
  repeat.learn(1, {.ids = Ids{5, 6}, .token_ids = token, .k = 2}, {});
  repeat.learn(1, {.ids = Ids{3, 6}, .token_ids = token, .k = 2}, {});
  EXPECT_EQ(repeat.predict(1, {.ids = Ids{1, 2}, .token_ids = token, .k = 2}, 9), (Ids{3, 6}));
  EXPECT_TRUE(repeat.predict(0, {}, 9).empty()) << "another layer";
  repeat.forget();
  EXPECT_TRUE(repeat.predict(1, {}, 9).empty());
}

TEST(Predictor, CountsWhatFollowedOnWhat) {
  ExpertPredictor markov(Prefetch::markov, 2, 4);
  const Ids token{0};
  const auto seen = [&](const Ids& before, const Ids& after) {
    markov.learn(1, {.ids = after, .token_ids = token, .k = 1}, {.ids = before, .token_ids = token, .k = 1});
  };
  seen({0}, {2});
  seen({0}, {3});
  seen({0}, {3});
  seen({1}, {0});
  EXPECT_EQ(markov.predict(1, {.ids = Ids{0}, .token_ids = token, .k = 1}, 9), (Ids{3}));
  EXPECT_EQ(markov.predict(1, {.ids = Ids{1}, .token_ids = token, .k = 1}, 9), (Ids{0}));
  EXPECT_TRUE(markov.predict(1, {.ids = Ids{2}, .token_ids = token, .k = 1}, 9).empty())
      << "never seen: no guess";
}

TEST(Predictor, LooksUpTheTokenId) {
  ExpertPredictor table(Prefetch::table, 1, 8);
  table.learn(0, {.ids = Ids{1, 2, 3, 4}, .token_ids = Ids{10, 11}, .k = 2}, {});
  EXPECT_EQ(table.predict(0, {.ids = {}, .token_ids = Ids{11, 99}, .k = 2}, 9), (Ids{3, 4}));
  EXPECT_EQ(table.predict(0, {.ids = {}, .token_ids = Ids{10, 11}, .k = 2}, 9), (Ids{1, 3, 2, 4}));
}

// Sequences of different texts in step, after a prompt of 4 tokens each.
std::vector<float> side_by_side(Engine& engine, const Ids& text, int sequences, int steps) {
  std::vector<float> all;
  const auto id_at = [&](int sequence, int position) {
    return text[static_cast<std::size_t>((7 * sequence + position)) % text.size()];
  };
  std::vector<StepToken> step;
  for (int sequence = 0; sequence < sequences; ++sequence)
    for (int position = 0; position < 4; ++position)
      step.push_back({.id = id_at(sequence, position),
                      .sequence = sequence,
                      .position = position,
                      .wants_logits = false});
  engine.forward(step);
  for (int position = 4; position < 4 + steps; ++position) {
    step.clear();
    for (int sequence = 0; sequence < sequences; ++sequence)
      step.push_back({.id = id_at(sequence, position), .sequence = sequence, .position = position});
    const std::span<const float> logits = engine.forward(step);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

constexpr const char* kPolicies[] = {"lru", "lfu", "layer_lru", "pinned"};
constexpr const char* kPredictors[] = {"none", "repeat", "next_gate", "markov", "table"};

class EverySequenceCount : public ::testing::TestWithParam<int> {};

// The smallest cache: at 8 and 32 sequences a step asks for more experts of a layer than there are slots, so
// it runs in waves.
TEST_P(EverySequenceCount, EveryPolicyAndPrefetchGivesTheBitsOfTheResidentModel) {
  const CacheFolder folder;
  for (const char* name : {"tiny_moe", "qwen3_moe_shards"}) {
    const Golden model = golden(name);
    const ModelSpec& spec = model.checkpoint->spec();
    const EngineLimits limits{.sequences = GetParam(),
                              .context_tokens = 10,
                              .step_tokens = 4 * GetParam(),
                              .logit_rows = GetParam()};
    Engine resident(model.checkpoint, {}, limits);
    const std::vector<float> expected = side_by_side(resident, model.ids, GetParam(), 6);
    Engine cached(model.checkpoint, {}, limits);  // its weights are loaded once, its cache made anew
    const std::string smallest =
        fmt::format("{}", static_cast<double>(spec.experts_per_token) / spec.experts);
    for (const char* policy : kPolicies)
      for (const char* prefetch : kPredictors)
        for (const std::string& share : {smallest, std::string("0.6")}) {
          const std::string what =
              fmt::format("{}, {}, {}, {}, {} sequences", name, policy, prefetch, share, GetParam());
          ASSERT_TRUE(cached.reconfigure(
              options_with({{"cache_policy", policy}, {"prefetch", prefetch}, {"expert_cache", share}})))
              << what;
          cached.drop_expert_cache();
          cached.reset_stats();
          expect_identical(side_by_side(cached, model.ids, GetParam(), 6), expected, what);
          const RunStats stats = cached.stats();
          EXPECT_GT(stats.expert_misses, 0) << what;
          EXPECT_LE(stats.experts_ahead_in_vain, stats.experts_ahead) << what;
          const std::int64_t expert = expert_bytes(spec, cached.options());
          EXPECT_EQ(stats.expert_bytes_ahead, stats.experts_ahead * expert) << what;
          EXPECT_EQ(stats.expert_bytes_in_vain, stats.experts_ahead_in_vain * expert) << what;
          EXPECT_EQ(stats.device_bytes, plan_memory(spec, cached.options(), limits).total()) << what;
          if (prefetch == kPredictors[0]) {
            EXPECT_EQ(stats.experts_ahead, 0) << what;
          }
        }
  }
}
INSTANTIATE_TEST_SUITE_P(Sequences, EverySequenceCount, ::testing::Values(1, 8, 32));

// What is fetched ahead and used is a miss less, one for one, where nothing that is needed is thrown out for
// it.
TEST(Prefetch, TurnsMissesIntoHits) {
  const Golden tiny = golden("tiny_moe");
  const Settings settings{{"cache_policy", "layer_lru"}, {"expert_cache", "0.5"}};
  Engine plain = engine_over(tiny, settings);
  teacher_forced(plain, tiny.ids, 1);
  for (const char* prefetch : {"next_gate", "markov"}) {
    Settings with = settings;
    with.emplace_back("prefetch", prefetch);
    Engine engine = engine_over(tiny, with);
    teacher_forced(engine, tiny.ids, 1);
    const RunStats stats = engine.stats();
    EXPECT_GT(stats.experts_ahead, 0) << prefetch;
    EXPECT_LT(stats.expert_misses, plain.stats().expert_misses) << prefetch;
    EXPECT_EQ(stats.expert_hits + stats.expert_misses,
              plain.stats().expert_hits + plain.stats().expert_misses)
        << prefetch;
    EXPECT_EQ(stats.expert_bytes_read, stats.expert_misses * expert_bytes(engine.spec(), engine.options()))
        << prefetch;
  }
}

// A cache of one sequence's size holds the last token's experts, by recency: repeating them has nothing to
// fetch. By frequency they may have left.
TEST(Prefetch, RepeatHasNothingToFetchWhereTheLastTokensExpertsStay) {
  const Golden tiny = golden("tiny_moe");
  for (const auto& [policy, fetches] :
       {std::pair("layer_lru", false), std::pair("lru", false), std::pair("lfu", true)}) {
    Engine engine =
        engine_over(tiny, {{"cache_policy", policy}, {"expert_cache", "0.25"}, {"prefetch", "repeat"}});
    teacher_forced(engine, tiny.ids, 1);
    EXPECT_EQ(engine.stats().experts_ahead > 0, fetches) << policy;
  }
}

TEST(Prefetch, LearnsAnewFromAnEmptyCache) {
  const Golden tiny = golden("tiny_moe");
  Engine engine = engine_over(tiny, {{"expert_cache", "0.4"}, {"prefetch", "markov"}});
  teacher_forced(engine, tiny.ids, 1);
  const RunStats first = engine.stats();
  engine.reset_stats();
  engine.drop_expert_cache();
  teacher_forced(engine, tiny.ids, 1);
  EXPECT_EQ(engine.stats().experts_ahead, first.experts_ahead);
  EXPECT_EQ(engine.stats().experts_ahead_in_vain, first.experts_ahead_in_vain);
  EXPECT_EQ(engine.stats().expert_misses, first.expert_misses);
}

// The spill file ends behind the experts of the second layer, so what fails first is what the thread in the
// background reads for the third. What it did not bring in must not be taken for resident later.
TEST(Prefetch, ThatFailsStopsTheStepAndTheEngineRecovers) {
  const CacheFolder folder;
  const Golden tiny = golden("tiny_moe");
  const auto tokens = std::span(tiny.ids).first(12);
  Engine engine =
      engine_over(tiny, {{"expert_quant", "int8"}, {"expert_cache", "0.5"}, {"prefetch", "next_gate"}});
  const std::vector<float> expected = teacher_forced(engine, tokens, 1);
  ASSERT_EQ(folder.files().size(), 1U);
  const std::string path = folder.files().front();
  const std::string bytes = read_bytes(path);
  constexpr std::int64_t kHeader = 4096;
  const std::int64_t two_layers = 2 * engine.spec().experts * expert_bytes(engine.spec(), engine.options());
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(kHeader + two_layers));
  engine.drop_expert_cache();
  EXPECT_TRUE(
      has_text(message_of<std::runtime_error>([&] { teacher_forced(engine, tokens, 1); }), "too early"));
  EXPECT_GT(engine.stats().experts_ahead, 0);
  {
    std::ofstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file << bytes;
  }
  expect_identical(teacher_forced(engine, tokens, 1), expected, "after the file was repaired");
}

TEST(Prefetch, ChangesWithTheOptions) {
  const Golden tiny = golden("tiny_moe");
  Engine engine = engine_over(tiny, {{"expert_cache", "0.4"}});
  ASSERT_TRUE(engine.reconfigure(options_with({{"expert_cache", "0.4"}, {"prefetch", "next_gate"}})));
  teacher_forced(engine, tiny.ids, 1);
  EXPECT_GT(engine.stats().experts_ahead, 0);
  engine.reset_stats();
  ASSERT_TRUE(engine.reconfigure(options_with({{"expert_cache", "0.4"}})));
  teacher_forced(engine, tiny.ids, 1);
  EXPECT_EQ(engine.stats().experts_ahead, 0);
}

TEST(Prewarm, FillsTheCacheWithTheHottestThatFit) {
  const Golden tiny = golden("tiny_moe");
  const ModelSpec& spec = tiny.checkpoint->spec();
  std::map<std::pair<int, int>, int> uses;
  Engine resident = engine_over(tiny);
  resident.observe_routing(
      [&](int layer, std::span<const std::int32_t> ids, std::span<const float>, int, int) {
        for (const std::int32_t id : ids) ++uses[{layer, id}];
      });
  teacher_forced(resident, tiny.ids, 1);
  std::vector<std::pair<int, std::pair<int, int>>> by_uses;
  for (const auto& [key, count] : uses) by_uses.emplace_back(-count, key);
  std::ranges::sort(by_uses);
  std::vector<Engine::HotExpert> hot;
  for (const auto& [count, key] : by_uses) hot.push_back({key.first, key.second});

  Engine cold = engine_over(tiny, {{"expert_cache", "0.5"}});
  const auto first_tokens = std::span(tiny.ids).first(4);
  const std::vector<float> expected = teacher_forced(cold, first_tokens, 1);
  for (const char* policy : kPolicies) {
    Engine warm = engine_over(tiny, {{"expert_cache", "0.5"}, {"cache_policy", policy}});
    warm.prewarm_experts(hot);
    EXPECT_EQ(warm.stats().expert_misses, 0) << "prewarming is no miss";
    expect_identical(teacher_forced(warm, first_tokens, 1), expected, policy);
    EXPECT_LT(warm.stats().expert_misses, cold.stats().expert_misses) << policy;
  }
  Engine engine = engine_over(tiny, {{"expert_cache", "0.5"}});
  const Engine::HotExpert dense{0, 0};
  EXPECT_EQ(message_of<InputError>([&] { engine.prewarm_experts({&dense, 1}); }),
            fmt::format("hot experts: layer 0, expert 0 (accepted: layers that route, experts 0 .. {})",
                        spec.experts - 1));
}

}  // namespace
}  // namespace moetune::testing
