// An expert cache on a GPU: the bits of the resident model whoever brings a missing expert in, and how often
// the host is waited for. What is refused until a GPU has run it is asked for by name.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/option_rules.h"
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

  DecodeRequest request(const std::vector<StepToken>& first, int steps) const {
    return {.first = first, .steps = steps, .sampling = {.temperature = 1.0F, .seed = 5}};
  }

  Golden expected_;
};

constexpr const char* kPolicies[] = {"lru", "lfu", "layer_lru", "pinned"};

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
    std::vector<StepToken> first;
    for (int sequence = 0; sequence < sequences; ++sequence)
      first.push_back(
          {.id = expected_.ids[static_cast<std::size_t>(sequence)], .sequence = sequence, .position = 0});
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

TEST_P(CudaCache, PullAsksTheHostForNothing) {
  Engine cached = engine(options({{"miss", "pull"}}, spec().experts_per_token));
  const std::vector<StepToken> first = {{.id = expected_.ids[0], .sequence = 0, .position = 0}};
  cached.decode(request(first, 4));  // records the graph
  cached.reset_stats();
  cached.decode(request(first, 16));
  const RunStats stats = cached.stats();
  EXPECT_GT(stats.expert_misses, 0) << "nothing was missing: nothing is shown";
  EXPECT_EQ(stats.host_waits, 1) << "the end of the run";
  EXPECT_GT(stats.expert_load_seconds, 0.0);
  EXPECT_EQ(stats.expert_lookups, std::int64_t{16} * spec().moe_layer_count() * spec().experts_per_token);
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
    EXPECT_EQ(cached.stats().expert_evictions, 0);
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
  EXPECT_EQ(objection(spec, {{"prefetch", "repeat"}}), "prefetch") << "not part of it";
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
  EXPECT_EQ(objection(large, {{"expert_cache", "0.5"}, {"expert_quant", "int4"}}), "");
  EXPECT_EQ(objection(spec_of(*open_checkpoint("qwen3-30b-a3b:fold=4")), {{"expert_cache", "0.5"}}), "");
}

}  // namespace
}  // namespace moetune::testing

#endif
