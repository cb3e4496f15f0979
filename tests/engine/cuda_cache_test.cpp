// An expert cache on a GPU: the bits of the resident model whoever brings a missing expert in, and how often
// the host is waited for. What is refused until a GPU has run it is asked for by name.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/probe.h"
#include "kernels/device.h"
#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

class CudaCache : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    expected_ = golden(GetParam());
    expected_.ids.resize(40);
  }

  // experts: of a layer, in slots; 0: all.
  EngineOptions options(const Settings& settings, double experts = 0.0) const {
    EngineOptions made = default_options(DeviceKind::cuda);
    made.expert_quant = NumberType::bf16;
    for (const auto& [knob, value] : settings) set_knob(made, knob, value);
    if (experts > 0.0) made.expert_cache_fraction = experts / spec().experts;
    return made;
  }
  Engine engine(const EngineOptions& with, int sequences = 1) const {
    return Engine(expected_.checkpoint, with,
                  {.sequences = sequences, .context_tokens = 40, .step_tokens = 40 * sequences});
  }
  const ModelSpec& spec() const { return spec_of(*expected_.checkpoint); }
  // Experts of a layer: half of them, or what one token needs.
  double about_half() const { return std::max(1.0 * spec().experts_per_token, 0.5 * spec().experts); }

  // Logits of `sequences` sequences that go through their tokens side by side.
  std::vector<float> side_by_side(Engine& engine, int sequences) const {
    std::vector<float> logits;
    for (int position = 0; position < 12; ++position) {
      std::vector<StepToken> step;
      for (int sequence = 0; sequence < sequences; ++sequence)
        step.push_back({.id = expected_.ids[static_cast<std::size_t>((position + 3 * sequence) % 40)],
                        .sequence = sequence,
                        .position = position});
      const std::span<const float> part = engine.forward(step);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  // A sequence begins with another token each.
  std::vector<StepToken> first_tokens(int sequences) const {
    std::vector<StepToken> first;
    for (int sequence = 0; sequence < sequences; ++sequence)
      first.push_back(
          {.id = expected_.ids[static_cast<std::size_t>(sequence)], .sequence = sequence, .position = 0});
    return first;
  }

  DecodeRequest request(const std::vector<StepToken>& first, int steps) const {
    return {.first = first, .steps = steps, .sampling = {.temperature = 1.0F, .seed = 5}};
  }

  Golden expected_;
};

constexpr const char* kPolicies[] = {"lru", "lfu", "layer_lru", "pinned"};
// What guesses, and who brings in what it guessed.
struct Ahead {
  const char* prefetch;
  const char* miss;
};
constexpr Ahead kAhead[] = {{"repeat", "dma"}, {"next_gate", "dma"}, {"markov", "dma"},
                            {"table", "dma"},  {"repeat", "pull"},   {"next_gate", "pull"},
                            {"markov", "pull"}, {"table", "pull"}};

TEST_P(CudaCache, EqualsTheResidentModelBitForBit) {
  for (const char* type : {"bf16", "int4"}) {
    Engine resident = engine(options({{"expert_quant", type}}));
    const std::vector<float> prompt = teacher_forced(resident, expected_.ids, expected_.ids.size());
    const std::vector<float> tokens = teacher_forced(resident, expected_.ids, 1);
    for (const char* miss : {"pull", "dma"})
      for (const char* policy : kPolicies)
        for (const double experts : {1.0 * spec().experts_per_token, 0.75 * spec().experts}) {
          const std::string what = fmt::format("{}, {}, {}, {} experts a layer", type, miss, policy, experts);
          Engine cached =
              engine(options({{"expert_quant", type}, {"miss", miss}, {"cache_policy", policy}}, experts));
          expect_identical(teacher_forced(cached, expected_.ids, expected_.ids.size()), prompt,
                           what + ", prompt");
          expect_identical(teacher_forced(cached, expected_.ids, 1), tokens, what + ", tokens");
          EXPECT_GT(cached.stats().expert_misses, 0) << what;
        }
  }
}

TEST_P(CudaCache, EqualsTheResidentModelAtSeveralSequences) {
  for (const int sequences : {8, 32}) {
    Engine resident = engine(options({}), sequences);
    const std::vector<float> logits = side_by_side(resident, sequences);
    for (const char* miss : {"pull", "dma"})
      for (const char* policy : kPolicies) {
        Engine cached =
            engine(options({{"miss", miss}, {"cache_policy", policy}}, spec().experts_per_token), sequences);
        expect_identical(side_by_side(cached, sequences), logits,
                         fmt::format("{}, {}, {} sequences", miss, policy, sequences));
      }
  }
}

TEST_P(CudaCache, DecodesWhatTheResidentModelDecodes) {
  for (const int sequences : {1, 8}) {
    const std::vector<StepToken> first = first_tokens(sequences);
    Engine resident = engine(options({}), sequences);
    const Decoded decoded = resident.decode(request(first, 20));
    for (const char* miss : {"pull", "dma"})
      for (const char* graph : {"on", "off"}) {
        Engine cached = engine(options({{"miss", miss}, {"cuda_graph", graph}}, about_half()), sequences);
        const std::string what = fmt::format("{}, graph {}, {} sequences", miss, graph, sequences);
        EXPECT_EQ(cached.decode(request(first, 20)).ids, decoded.ids) << what;
        EXPECT_EQ(cached.decode(request(first, 20)).ids, decoded.ids) << what << ", again";
      }
  }
}

// What a guess brings in goes beside the layers that run; which expert is used never depends on it.
TEST_P(CudaCache, PrefetchGivesTheBitsOfTheResidentModel) {
  for (const int sequences : {1, 8, 32}) {
    Engine resident = engine(options({}), sequences);
    const std::vector<float> logits = side_by_side(resident, sequences);
    std::int64_t ahead = 0;
    Engine cached = engine(options({}), sequences);  // its weights are loaded once, its cache made anew
    for (const char* policy : kPolicies)
      for (const auto& [prefetch, miss] : kAhead)
        for (const double experts : {1.0 * spec().experts_per_token, 0.6 * spec().experts}) {
          const std::string what = fmt::format("{}, {}, {}, {} experts a layer, {} sequences", policy,
                                               prefetch, miss, experts, sequences);
          ASSERT_TRUE(cached.reconfigure(
              options({{"miss", miss}, {"cache_policy", policy}, {"prefetch", prefetch}}, experts)))
              << what;
          cached.drop_expert_cache();
          cached.reset_stats();
          expect_identical(side_by_side(cached, sequences), logits, what);
          const RunStats stats = cached.stats();
          EXPECT_LE(stats.experts_ahead_in_vain, stats.experts_ahead) << what;
          EXPECT_EQ(stats.device_bytes, plan_memory(spec(), cached.options(), cached.limits()).total())
              << what;
          ahead += stats.experts_ahead;
        }
    EXPECT_GT(ahead, 0) << sequences << " sequences";
  }
}

TEST_P(CudaCache, PrefetchDecodesWhatTheResidentModelDecodes) {
  for (const int sequences : {1, 8}) {
    const std::vector<StepToken> first = first_tokens(sequences);
    Engine resident = engine(options({}), sequences);
    const Decoded decoded = resident.decode(request(first, 20));
    for (const auto& [prefetch, miss] : kAhead)
      for (const char* graph : {"on", "off"}) {
        Engine cached =
            engine(options({{"miss", miss}, {"prefetch", prefetch}, {"cuda_graph", graph}}, about_half()),
                   sequences);
        const std::string what =
            fmt::format("{}, {}, graph {}, {} sequences", prefetch, miss, graph, sequences);
        EXPECT_EQ(cached.decode(request(first, 20)).ids, decoded.ids) << what;
        EXPECT_EQ(cached.decode(request(first, 20)).ids, decoded.ids) << what << ", again";
      }
  }
}

// With the routing of another engine the guesses are the same, next_gate's apart, and so is what they bring
// in.
TEST_P(CudaCache, PrefetchCountsWhatTheCpuEngineCounts) {
  for (const char* prefetch : {"repeat", "markov", "table"})
    for (const char* policy : kPolicies) {
      Routing routing;
      EngineOptions on_cpu = options_with({{"cache_policy", policy}, {"prefetch", prefetch}});
      on_cpu.expert_cache_fraction = about_half() / spec().experts;
      Engine host(expected_.checkpoint, on_cpu, {.sequences = 1, .context_tokens = 40, .step_tokens = 40});
      record_routing(host, routing);
      teacher_forced(host, expected_.ids, 1);
      Engine cached =
          engine(options({{"miss", "dma"}, {"cache_policy", policy}, {"prefetch", prefetch}}, about_half()));
      replay_routing(cached, routing);
      teacher_forced(cached, expected_.ids, 1);
      const std::string what = fmt::format("{}, {}", prefetch, policy);
      EXPECT_EQ(cached.stats().expert_hits, host.stats().expert_hits) << what;
      EXPECT_EQ(cached.stats().expert_misses, host.stats().expert_misses) << what;
      EXPECT_EQ(cached.stats().experts_ahead, host.stats().experts_ahead) << what;
      EXPECT_EQ(cached.stats().experts_ahead_in_vain, host.stats().experts_ahead_in_vain) << what;
    }
}

// A rule leaves fewer experts, or others; where they lie is another matter.
TEST_P(CudaCache, RulesOfTheChoiceGiveTheSameBitsWhereverExpertsLie) {
  const std::string fewer = std::to_string(std::max(1, spec().experts_per_token - 1));
  for (const Settings& rule :
       {Settings{{"top_k_rule", "threshold:0.7"}}, Settings{{"top_k_rule", "per_layer"}, {"top_k", fewer}}})
    for (const int sequences : {1, 8}) {
      Engine resident = engine(options(rule), sequences);
      const std::vector<float> logits = side_by_side(resident, sequences);
      for (const char* miss : {"pull", "dma"}) {
        Settings settings = rule;
        settings.emplace_back("miss", miss);
        Engine cached = engine(options(settings, about_half()), sequences);
        const std::string what = fmt::format("{}, {}, {} sequences", rule.front().second, miss, sequences);
        expect_identical(side_by_side(cached, sequences), logits, what);
        if (spec().experts_per_token > 1) {
          EXPECT_LT(cached.stats().expert_lookups,
                    std::int64_t{12} * sequences * spec().moe_layer_count() * spec().experts_per_token)
              << what << ": nothing was dropped";
        }
      }
    }
}

TEST_P(CudaCache, ReroutesTheSameOnTheDeviceAndForTheHost) {
  for (const char* margin : {"0.1", "0.5"})
    for (const int sequences : {1, 8}) {
      RunStats stats[2];
      std::vector<float> logits[2];
      Decoded decoded[2];
      for (const int by_host : {0, 1}) {
        Engine cached = engine(
            options({{"miss", by_host != 0 ? "dma" : "pull"}, {"reroute_margin", margin}}, about_half()),
            sequences);
        logits[by_host] = side_by_side(cached, sequences);
        stats[by_host] = cached.stats();
        decoded[by_host] =
            cached.decode(request({{.id = expected_.ids[0], .sequence = 0, .position = 0}}, 12));
      }
      const std::string what = fmt::format("margin {}, {} sequences", margin, sequences);
      expect_identical(logits[1], logits[0], what);
      EXPECT_EQ(stats[1].experts_rerouted, stats[0].experts_rerouted) << what;
      EXPECT_EQ(stats[1].expert_misses, stats[0].expert_misses) << what;
      EXPECT_EQ(decoded[1].ids, decoded[0].ids) << what;
      if (std::string(margin) == "0.5") {
        EXPECT_GT(stats[0].experts_rerouted, 0) << what;
      }
    }
}

// The same rules where the host routes, and where it computes what has no slot.
TEST_P(CudaCache, RulesActWhereTheHostRoutesAndComputes) {
  const Settings rule{{"top_k_rule", "threshold:0.7"}};
  Engine there = engine(options(rule));
  Routing routing;
  record_routing(there, routing);
  const std::vector<float> logits = teacher_forced(there, expected_.ids, 1);
  std::int64_t dropped = 0;
  for (const auto& [layer, ids] : routing.ids) dropped += std::ranges::count(ids, -1);
  if (spec().experts_per_token > 1) {
    EXPECT_GT(dropped, 0);
  }

  Settings routed = rule;
  routed.emplace_back("router", "cpu");
  Engine here = engine(options(routed));
  Routing ours;
  record_routing(here, ours);
  teacher_forced(here, expected_.ids, 1);
  EXPECT_LE(flip_rate(ours, routing), 0.05);

  Settings computed = rule;
  computed.emplace_back("miss", "cpu");
  Engine cached = engine(options(computed, spec().experts_per_token));
  replay_routing(cached, routing);
  EXPECT_LE(relative_error(teacher_forced(cached, expected_.ids, 1), logits), 1e-2);

  Engine rerouting =
      engine(options({{"router", "cpu"}, {"miss", "dma"}, {"reroute_margin", "0.5"}}, about_half()));
  side_by_side(rerouting, 1);
  EXPECT_GT(rerouting.stats().experts_rerouted, 0);
}

TEST_P(CudaCache, PullAsksTheHostForNothing) {
  for (const Settings& rule :
       {Settings{}, Settings{{"prefetch", "repeat"}}, Settings{{"prefetch", "next_gate"}},
        Settings{{"reroute_margin", "0.01"}, {"top_k_rule", "threshold:0.01"}}}) {
    Settings settings = rule;
    settings.emplace_back("miss", "pull");
    Engine cached = engine(options(settings, spec().experts_per_token));
    const std::vector<StepToken> first = {{.id = expected_.ids[0], .sequence = 0, .position = 0}};
    cached.decode(request(first, 4));  // records the graph
    cached.reset_stats();
    cached.decode(request(first, 16));
    const RunStats stats = cached.stats();
    EXPECT_GT(stats.expert_misses, 0) << "nothing was missing: nothing is shown";
    EXPECT_EQ(stats.host_waits, 1) << "the end of the run";
    EXPECT_GT(stats.expert_load_seconds, 0.0);
    const std::int64_t all = std::int64_t{16} * spec().moe_layer_count() * spec().experts_per_token;
    EXPECT_LE(stats.expert_lookups, all);
    if (rule.empty()) {
      EXPECT_EQ(stats.expert_lookups, all);
    }
  }
}

TEST_P(CudaCache, DmaWaitsOncePerRoutedLayer) {
  for (const char* graph : {"on", "off"}) {
    Engine cached = engine(options({{"miss", "dma"}, {"cuda_graph", graph}}, spec().experts_per_token));
    const std::vector<StepToken> first = {{.id = expected_.ids[0], .sequence = 0, .position = 0}};
    cached.decode(request(first, 4));
    cached.reset_stats();
    cached.decode(request(first, 16));
    EXPECT_EQ(cached.stats().host_waits, std::int64_t{16} * spec().moe_layer_count() + 1)
        << "graph " << graph;
  }
}

// The host learns a layer's choice as it does anyway; the guess of a gate is a second answer in every layer
// but the last.
TEST_P(CudaCache, PrefetchWaitsForNoCopy) {
  const int layers = spec().moe_layer_count();
  for (const auto& [prefetch, waits] :
       {std::pair{"repeat", layers}, {"markov", layers}, {"next_gate", 2 * layers - 1}}) {
    Engine cached = engine(options({{"miss", "dma"}, {"prefetch", prefetch}}, about_half()));
    const std::vector<StepToken> first = {{.id = expected_.ids[0], .sequence = 0, .position = 0}};
    cached.decode(request(first, 4));
    for (const char* before : {"tokens", "a prompt"}) {  // which is not guessed for
      if (before == std::string("a prompt")) cached.forward(step_of(expected_.ids, 0, 8));
      cached.reset_stats();
      cached.decode(request(first, 16));
      EXPECT_EQ(cached.stats().host_waits, std::int64_t{16} * waits + 1) << prefetch << " behind " << before;
    }
  }
}

TEST_P(CudaCache, CountsWhatTheCpuEngineCounts) {
  for (const char* policy : kPolicies) {
    const double experts = about_half();
    Routing routing;
    EngineOptions on_cpu = options_with({{"cache_policy", policy}});
    on_cpu.expert_cache_fraction = experts / spec().experts;
    Engine host(expected_.checkpoint, on_cpu, {.sequences = 1, .context_tokens = 40, .step_tokens = 40});
    record_routing(host, routing);
    teacher_forced(host, expected_.ids, 1);
    for (const char* miss : {"pull", "dma"}) {
      Engine cached = engine(options({{"miss", miss}, {"cache_policy", policy}}, experts));
      replay_routing(cached, routing);
      teacher_forced(cached, expected_.ids, 1);
      EXPECT_EQ(cached.stats().expert_hits, host.stats().expert_hits) << miss << ", " << policy;
      EXPECT_EQ(cached.stats().expert_misses, host.stats().expert_misses) << miss << ", " << policy;
      EXPECT_EQ(cached.stats().expert_evictions, host.stats().expert_evictions) << miss << ", " << policy;
    }
  }
}

TEST_P(CudaCache, GoesOnFromWhatTheHostHasPlaced) {
  Engine resident = engine(options({}));
  const std::vector<float> logits = teacher_forced(resident, expected_.ids, 1);
  std::vector<Engine::HotExpert> hot;
  for (std::int32_t expert = 0; expert < spec().experts; ++expert)
    for (int layer = 0; layer < spec().layers; ++layer)
      if (spec().moe_layers[static_cast<std::size_t>(layer)]) hot.push_back({layer, expert});
  for (const char* policy : kPolicies) {
    RunStats stats[2];
    for (const int on_device : {0, 1}) {
      Engine cached =
          engine(options({{"miss", on_device != 0 ? "pull" : "dma"}, {"cache_policy", policy}}, about_half()));
      cached.prewarm_experts(hot);
      EXPECT_EQ(cached.stats().expert_misses, 0) << policy << ": prewarming is no miss";
      expect_identical(teacher_forced(cached, expected_.ids, 1), logits, policy);
      stats[on_device] = cached.stats();
    }
    EXPECT_GT(stats[1].expert_hits, 0) << policy;
    EXPECT_EQ(stats[1].expert_hits, stats[0].expert_hits) << policy;
    EXPECT_EQ(stats[1].expert_misses, stats[0].expert_misses) << policy;
    EXPECT_EQ(stats[1].expert_evictions, stats[0].expert_evictions) << policy;
  }
}

// Scores are rounded elsewhere: with the same experts the weights differ by that only.
TEST_P(CudaCache, RoutingOnTheHostIsTheSameUpToRounding) {
  Engine there = engine(options({}));
  Routing routing;
  record_routing(there, routing);
  const std::vector<float> logits = teacher_forced(there, expected_.ids, 1);
  for (const double experts : {0.0, about_half()}) {
    Engine here = engine(options({{"router", "cpu"}}, experts));
    replay_routing(here, routing);
    EXPECT_LE(relative_error(teacher_forced(here, expected_.ids, 1), logits), 1e-3) << experts;
    here.force_routing({});
    Routing ours;
    record_routing(here, ours);
    teacher_forced(here, expected_.ids, 1);
    EXPECT_LE(flip_rate(ours, routing), 0.05) << experts;
  }
}

// Experts computed on the host are rounded as the host rounds.
TEST_P(CudaCache, ExpertsComputedOnTheHostAreTheSameUpToRounding) {
  Engine resident = engine(options({}));
  Routing routing;
  record_routing(resident, routing);
  const std::vector<float> logits = teacher_forced(resident, expected_.ids, 1);
  for (const char* graph : {"on", "off"}) {
    Engine cached = engine(options({{"miss", "cpu"}, {"cuda_graph", graph}}, spec().experts_per_token));
    replay_routing(cached, routing);
    EXPECT_LE(relative_error(teacher_forced(cached, expected_.ids, 1), logits), 1e-2) << graph;
    EXPECT_GT(cached.stats().expert_misses, 0);
    EXPECT_LE(cached.stats().expert_evictions,
              static_cast<std::int64_t>(expected_.ids.size()) * spec().moe_layer_count())
        << "one a layer and step";
    cached.force_routing({});
    const std::vector<StepToken> first = {{.id = expected_.ids[0], .sequence = 0, .position = 0}};
    EXPECT_EQ(cached.decode(request(first, 8)).ids.size(), 8U);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaCache, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

// What stands in the way of options, by the knob that is named; empty: nothing.
std::string objection(const ModelSpec& spec, const Settings& settings) {
  EngineOptions options = default_options(DeviceKind::cuda);
  options.expert_quant = NumberType::bf16;
  for (const auto& [knob, value] : settings) set_knob(options, knob, value);
  const auto found =
      objection_to_options(spec, options, {.sequences = 1, .context_tokens = 40, .step_tokens = 40});
  return found ? found->knob : "";
}

TEST(CudaCacheRefusals, NameTheKnob) {
  const ModelSpec spec = golden("tiny_moe").checkpoint->spec();
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "dma"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "cpu"}}), "");
  EXPECT_EQ(objection(spec, {{"router", "cpu"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "dma"}, {"prefetch", "repeat"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "pull"}, {"prefetch", "repeat"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "pull"}, {"prefetch", "markov"}}), "");
  EXPECT_EQ(objection(spec, {{"expert_cache", "0.5"}, {"miss", "cpu"}, {"prefetch", "repeat"}}), "prefetch");
}

// What a token needs at once must fit beside the hot experts, and what is pulled into pinned
// memory.
TEST(CudaCacheRefusals, AreAboutSlotsAndPinnedMemory) {
  ModelSpec one_layer = golden("tiny_moe").checkpoint->spec();
  one_layer.layers = 1;
  one_layer.moe_layers = {true};
  const std::string least =
      fmt::format("{}", static_cast<double>(one_layer.experts_per_token) / one_layer.experts);
  EXPECT_EQ(objection(one_layer, {{"expert_cache", least}, {"cache_policy", "pinned"}}), "cache_policy");
  EXPECT_EQ(objection(one_layer, {{"expert_cache", least}, {"cache_policy", "lru"}}), "");

  const ModelSpec large = spec_of(*open_checkpoint("qwen3-30b-a3b"));  // 54 GiB of experts in bf16
  EXPECT_EQ(objection(large, {{"expert_cache", "0.5"}}), "miss");
  EXPECT_EQ(objection(large, {{"expert_cache", "0.5"}, {"miss", "dma"}}), "");
  const auto where_it_fits = [](std::int64_t gib) { return gib << 30 <= host_store_limit() ? "" : "miss"; };
  EXPECT_EQ(objection(large, {{"expert_cache", "0.5"}, {"expert_quant", "int4"}}), where_it_fits(14));
  EXPECT_EQ(objection(spec_of(*open_checkpoint("qwen3-30b-a3b:fold=4")), {{"expert_cache", "0.5"}}), where_it_fits(14));
}

// The host's own copy is not folded away, nor read from a file.
TEST(CudaCacheRefusals, AreAboutTheHostsMemory) {
  EXPECT_EQ(host_store_limit(), usable_memory_bytes() / 4 * 3);
  ModelSpec spec = golden("tiny_moe").checkpoint->spec();
  const Settings on_host = {{"expert_cache", "0.5"}, {"miss", "cpu"}};
  EngineOptions options = default_options(DeviceKind::cuda);
  options.expert_quant = NumberType::bf16;
  for (const auto& [knob, value] : on_host) set_knob(options, knob, value);
  EXPECT_TRUE(may_pin_experts(spec, options));
  EXPECT_EQ(objection(spec, on_host), "");
  // As many experts as two copies of have no room, and then not even one.
  const std::int64_t per_expert = host_experts_bytes(spec, options) / spec.experts;
  spec.is_synthetic = false;
  spec.experts = static_cast<int>(std::min<std::int64_t>(host_store_limit() / per_expert, 1 << 30) - 8);
  EXPECT_FALSE(may_pin_experts(spec, options)) << "beside the host's own copy";
  EXPECT_EQ(objection(spec, on_host), "");
  spec.experts += 16;
  EXPECT_EQ(objection(spec, on_host), "miss");
}

}  // namespace
}  // namespace moetune::testing

#endif
