// A CPU engine whose cache is decided about by the ops that a GPU runs: the bits of the resident model, and
// the counts of an engine that decides on the host. What is not tested here are the kernels themselves.
#include "engine/device_lookup.h"
#include "engine/expert_cache.h"
#include "engine/option_rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/memory_plan.h"
#include "engine/untried.h"
#include "tests/support/golden.h"
#include "tests/support/untried.h"

namespace moetune::testing {
namespace {

class DeviceLookUpEngine : public ::testing::TestWithParam<std::string> {};

std::string share_of(const ModelSpec& spec, double experts) {
  return fmt::format("{}", experts / spec.experts);
}
// Half of the experts, or what one token needs.
std::string about_half(const ModelSpec& spec) {
  return share_of(spec, std::max(1.0 * spec.experts_per_token, 0.5 * spec.experts));
}

// A prompt at once needs several waves, single tokens one.
TEST_P(DeviceLookUpEngine, EqualsTheResidentModelBitForBit) {
  Golden expected = golden(GetParam());
  expected.ids.resize(24);
  const ModelSpec& spec = expected.checkpoint->spec();
  for (const char* type : {"checkpoint", "int4"}) {
    Engine resident = engine_over(expected, {{"expert_quant", type}});
    const std::vector<float> logits = teacher_forced(resident, expected.ids, expected.ids.size());
    for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"})
      for (const double experts : {1.0 * spec.experts_per_token, 0.75 * spec.experts}) {
        const Settings settings = {
            {"expert_quant", type}, {"cache_policy", policy}, {"expert_cache", share_of(spec, experts)}};
        const std::string what = fmt::format("{}, {}, {} experts a layer", type, policy, experts);
        const WithUntried untried(kUntriedDeviceLookUp);
        Engine cached = engine_over(expected, settings);
        expect_identical(teacher_forced(cached, expected.ids, expected.ids.size()), logits,
                         what + ", prompt");
        expect_identical(teacher_forced(cached, expected.ids, 1), logits, what + ", tokens");
      }
  }
}

TEST_P(DeviceLookUpEngine, CountsWhatTheHostCounts) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"}) {
    const Settings settings = {{"cache_policy", policy}, {"expert_cache", about_half(spec)}};
    const auto stats_with = [&](std::string_view untried_name) {
      const WithUntried untried(untried_name);
      Engine engine = engine_over(expected, settings);
      for (const std::size_t chunk : {std::size_t{1}, std::size_t{5}})
        teacher_forced(engine, expected.ids, chunk);
      return engine.stats();
    };
    const RunStats host = stats_with("");
    const RunStats device = stats_with(kUntriedDeviceLookUp);
    EXPECT_GT(device.expert_misses, 0) << policy;
    EXPECT_EQ(device.expert_lookups, host.expert_lookups) << policy;
    EXPECT_EQ(device.expert_hits, host.expert_hits) << policy;
    EXPECT_EQ(device.expert_misses, host.expert_misses) << policy;
    EXPECT_EQ(device.expert_evictions, host.expert_evictions) << policy;
    EXPECT_EQ(device.expert_bytes_read, host.expert_bytes_read) << policy;
    EXPECT_GT(device.expert_load_seconds, 0.0) << policy;
    EXPECT_GT(device.device_bytes, host.device_bytes) << policy << ": its tables are not counted";
  }
}

TEST_P(DeviceLookUpEngine, StartsAgainWhenDroppedOrReconfigured) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const WithUntried untried(kUntriedDeviceLookUp);
  EngineOptions options = options_with({{"expert_cache", about_half(spec)}});
  Engine engine = engine_over(expected, {{"expert_cache", about_half(spec)}});
  const auto first_step = [&] {
    engine.reset_stats();
    engine.forward(step_of(expected.ids, 0, 1));
    return engine.stats().expert_misses;
  };
  const std::int64_t cold = std::int64_t{spec.moe_layer_count()} * spec.experts_per_token;
  EXPECT_EQ(first_step(), cold);
  EXPECT_EQ(first_step(), 0) << "the same token again";
  engine.drop_expert_cache();
  EXPECT_EQ(first_step(), cold) << "dropped, and still there";
  options.cache_policy = CachePolicy::lfu;
  ASSERT_TRUE(engine.reconfigure(options));
  EXPECT_EQ(first_step(), cold) << "another policy starts cold";
}

TEST_P(DeviceLookUpEngine, TakesThePlannedMemory) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const WithUntried untried(kUntriedDeviceLookUp);
  for (const auto& [miss, prefetch] : {std::pair{"pull", "none"},
                                       {"pull", "next_gate"},
                                       {"pull", "markov"},
                                       {"pull", "table"},
                                       {"dma", "none"},
                                       {"cpu", "none"}}) {
    const Settings settings = {{"miss", miss}, {"prefetch", prefetch}, {"expert_cache", about_half(spec)}};
    const Engine engine = engine_over(expected, settings);
    const MemoryPlan plan = plan_memory(spec, options_with(settings), engine.limits());
    EXPECT_EQ(engine.stats().device_bytes, plan.total()) << miss << ", " << prefetch;
    EXPECT_EQ(engine.stats().host_bytes, plan.host_bytes) << miss << ", " << prefetch;
  }
}

// miss=cpu with a CPU in the GPU's place: the same op computes both parts, so that the bits are the same.
// Once all slots are taken no more than one expert a layer and step is brought in.
TEST_P(DeviceLookUpEngine, ExpertsThatStayOutsideAreComputedThere) {
  Golden expected = golden(GetParam());
  expected.ids.resize(24);
  const ModelSpec& spec = expected.checkpoint->spec();
  for (const char* type : {"checkpoint", "int4"}) {
    Engine resident = engine_over(expected, {{"expert_quant", type}});
    const std::vector<float> logits = teacher_forced(resident, expected.ids, expected.ids.size());
    const WithUntried untried(kUntriedDeviceLookUp);
    for (const char* policy : {"lru", "layer_lru"}) {
      Engine cached = engine_over(expected, {{"expert_quant", type},
                                             {"miss", "cpu"},
                                             {"cache_policy", policy},
                                             {"expert_cache", share_of(spec, spec.experts_per_token)}});
      const std::string what = fmt::format("{}, {}", type, policy);
      const std::int64_t cached_expert_bytes = expert_bytes(spec, cached.options());
      expect_identical(teacher_forced(cached, expected.ids, expected.ids.size()), logits, what + ", prompt");
      const RunStats filled = cached.stats();
      expect_identical(teacher_forced(cached, expected.ids, 1), logits, what + ", tokens");
      const RunStats stats = cached.stats();
      EXPECT_GT(stats.expert_misses, filled.expert_misses) << what << ": nothing stayed outside";
      const std::int64_t promoted =
          (stats.expert_bytes_read - filled.expert_bytes_read) / cached_expert_bytes;
      EXPECT_GT(promoted, 0) << what;
      EXPECT_LE(promoted, std::int64_t{24} * spec.moe_layer_count() * ExpertCache::most_promoted) << what;
      EXPECT_LE(promoted, stats.expert_misses - filled.expert_misses) << what;
      EXPECT_LE(stats.expert_evictions, stats.expert_bytes_read / cached_expert_bytes) << what;
      EXPECT_GT(cached.stats().host_bytes, 0) << what;
    }
  }
}

// A text that goes on and on about the same finds its experts on the device after a while.
TEST_P(DeviceLookUpEngine, ExpertsThatAreAskedForAgainArePromoted) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const WithUntried untried(kUntriedDeviceLookUp);
  Engine cached =
      engine_over(expected, {{"miss", "cpu"}, {"expert_cache", share_of(spec, spec.experts_per_token)}});
  teacher_forced(cached, expected.ids, expected.ids.size());  // every slot is taken
  std::int64_t misses = 1;
  for (int step = 0; misses > 0 && step <= spec.experts_per_token; ++step) {
    cached.reset_stats();
    cached.forward(step_of(expected.ids, 0, 1));
    misses = cached.stats().expert_misses;
  }
  EXPECT_EQ(misses, 0) << "one a layer and step, and still not all of them";
}

// What the device looks up has been changed by then: dropped experts are not asked for, and who is resident
// is the device's own table.
TEST_P(DeviceLookUpEngine, ChangesChoicesAsTheHostDoes) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const std::string fewer = std::to_string(std::max(1, spec.experts_per_token - 1));
  for (const Settings& rule :
       {Settings{{"top_k_rule", "threshold:0.7"}}, Settings{{"top_k_rule", "per_layer"}, {"top_k", fewer}},
        Settings{{"reroute_margin", "0.5"}},
        Settings{{"reroute_margin", "0.2"}, {"top_k_rule", "threshold:0.5"}}}) {
    Settings settings = rule;
    settings.emplace_back("expert_cache", about_half(spec));
    RunStats stats[2];
    std::vector<float> logits[2];
    for (const int on_device : {0, 1}) {
      const WithUntried untried(on_device != 0 ? kUntriedDeviceLookUp : "");
      Engine engine = engine_over(expected, settings);
      logits[on_device] = teacher_forced(engine, expected.ids, 1);
      stats[on_device] = engine.stats();
    }
    const std::string what = rule.front().first + "=" + rule.front().second;
    expect_identical(logits[1], logits[0], what);
    EXPECT_EQ(stats[1].expert_lookups, stats[0].expert_lookups) << what;
    EXPECT_EQ(stats[1].expert_misses, stats[0].expert_misses) << what;
    EXPECT_EQ(stats[1].experts_rerouted, stats[0].experts_rerouted) << what;
    if (rule.front().second == "0.5") {
      EXPECT_GT(stats[1].experts_rerouted, 0) << what;
    }
  }
}

// What is guessed on the device is what the host would guess: the same experts, brought in and in vain. At
// several sequences the last waves are empty on the device, where nobody knows; logits are those of the
// resident model all the same.
TEST_P(DeviceLookUpEngine, FetchesAheadWhatTheHostDoes) {
  Golden expected = golden(GetParam());
  expected.ids.resize(40);
  const ModelSpec& spec = expected.checkpoint->spec();
  Engine resident = engine_over(expected);
  const std::vector<float> logits = teacher_forced(resident, expected.ids, 1);
  for (const char* prefetch : {"repeat", "next_gate", "markov", "table"})
    for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"}) {
      const Settings settings = {
          {"prefetch", prefetch}, {"cache_policy", policy}, {"expert_cache", about_half(spec)}};
      RunStats stats[2];
      const std::string what = fmt::format("{}, {}", prefetch, policy);
      for (const int on_device : {0, 1}) {
        const WithUntried untried(on_device != 0 ? kUntriedDeviceLookUp : "");
        Engine engine = engine_over(expected, settings);
        // A prompt is learned from and not guessed for. What repeat takes out of one is another list than the
        // host's.
        if (prefetch != std::string("repeat")) teacher_forced(engine, expected.ids, expected.ids.size());
        expect_identical(teacher_forced(engine, expected.ids, 1), logits, what);
        stats[on_device] = engine.stats();
      }
      EXPECT_EQ(stats[1].expert_misses, stats[0].expert_misses) << what;
      EXPECT_EQ(stats[1].expert_evictions, stats[0].expert_evictions) << what;
      EXPECT_EQ(stats[1].experts_ahead, stats[0].experts_ahead) << what;
      EXPECT_EQ(stats[1].experts_ahead_in_vain, stats[0].experts_ahead_in_vain) << what;
      if (prefetch != std::string("repeat")) {
        EXPECT_GT(stats[1].experts_ahead, 0) << what;
      }
    }
}

TEST_P(DeviceLookUpEngine, FetchesAheadAtSeveralSequences) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const auto run_with = [&](const Settings& settings) {
    Engine engine(expected.checkpoint, options_with(settings),
                  {.sequences = 8, .context_tokens = 8, .step_tokens = 8});
    std::vector<float> logits;
    for (int position = 0; position < 6; ++position) {
      std::vector<StepToken> step;
      for (int sequence = 0; sequence < 8; ++sequence)
        step.push_back({.id = expected.ids[static_cast<std::size_t>(position + 3 * sequence)],
                        .sequence = sequence,
                        .position = position});
      const std::span<const float> part = engine.forward(step);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  };
  const std::vector<float> logits = run_with({});
  const WithUntried untried(kUntriedDeviceLookUp);
  for (const char* prefetch : {"repeat", "next_gate", "markov", "table"})
    for (const char* policy : {"lru", "layer_lru"})
      expect_identical(run_with({{"prefetch", prefetch},
                                 {"cache_policy", policy},
                                 {"expert_cache", share_of(spec, spec.experts_per_token)}}),
                       logits, fmt::format("{}, {}", prefetch, policy));
}

// The hottest experts are there before the first token, whoever decides afterwards; what is asked for next is
// placed alike.
TEST_P(DeviceLookUpEngine, GoesOnFromWhatTheHostHasPlaced) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  std::vector<Engine::HotExpert> hot;
  for (std::int32_t expert = spec.experts - 1; expert >= 0; --expert)
    for (int layer = 0; layer < spec.layers; ++layer)
      if (spec.moe_layers[static_cast<std::size_t>(layer)]) hot.push_back({layer, expert});
  const auto tokens = std::span(expected.ids).first(std::min<std::size_t>(24, expected.ids.size()));
  Engine resident = engine_over(expected);
  const std::vector<float> logits = teacher_forced(resident, tokens, 1);
  for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"})
    for (const char* prefetch : {"none", "repeat", "markov"}) {
      const Settings settings = {
          {"cache_policy", policy}, {"prefetch", prefetch}, {"expert_cache", about_half(spec)}};
      const std::string what = fmt::format("{}, {}", policy, prefetch);
      RunStats stats[2];
      for (const int on_device : {0, 1}) {
        const WithUntried untried(on_device != 0 ? kUntriedDeviceLookUp : "");
        Engine engine = engine_over(expected, settings);
        teacher_forced(engine, tokens.first(3), 1);  // what it held before is forgotten
        engine.reset_stats();
        engine.prewarm_experts(hot);
        EXPECT_EQ(engine.stats().expert_misses, 0) << what << ": prewarming is no miss";
        expect_identical(teacher_forced(engine, tokens, 1), logits, what);
        stats[on_device] = engine.stats();
      }
      EXPECT_GT(stats[1].expert_hits, 0) << what;
      EXPECT_EQ(stats[1].expert_hits, stats[0].expert_hits) << what;
      EXPECT_EQ(stats[1].expert_misses, stats[0].expert_misses) << what;
      EXPECT_EQ(stats[1].expert_evictions, stats[0].expert_evictions) << what;
      EXPECT_EQ(stats[1].experts_ahead, stats[0].experts_ahead) << what;
      EXPECT_EQ(stats[1].experts_ahead_in_vain, stats[0].experts_ahead_in_vain) << what;
    }
}

// Steps that feed themselves take the same way.
TEST_P(DeviceLookUpEngine, DecodesWhatTheResidentModelDecodes) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  const std::vector<StepToken> first = step_of(expected.ids, 0, 1);
  const DecodeRequest request{.first = first, .steps = 12, .sampling = {.temperature = 1.0F, .seed = 3}};
  Engine resident = engine_over(expected);
  const Decoded decoded = resident.decode(request);
  const WithUntried untried(kUntriedDeviceLookUp);
  Engine cached = engine_over(expected, {{"expert_cache", about_half(spec)}});
  EXPECT_EQ(cached.decode(request).ids, decoded.ids);
  EXPECT_GT(cached.stats().expert_misses, 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DeviceLookUpEngine, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

TEST(Untried, IsAListWithCommas) {
  const WithUntried untried("one,three");
  EXPECT_TRUE(takes_untried("one"));
  EXPECT_TRUE(takes_untried("three"));
  EXPECT_FALSE(takes_untried("two"));
  EXPECT_FALSE(takes_untried("on"));
  EXPECT_FALSE(takes_untried(""));
}

}  // namespace
}  // namespace moetune::testing
