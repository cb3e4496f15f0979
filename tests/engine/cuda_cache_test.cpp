// An expert cache on a GPU: the bits of the resident model whoever brings a missing expert in, and how often
// the host is waited for.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/support/cuda_cache.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

class CudaCache : public CudaCacheTest {};

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
      Engine cached = engine(
          options({{"miss", on_device != 0 ? "pull" : "dma"}, {"cache_policy", policy}}, about_half()));
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

}  // namespace
}  // namespace moetune::testing

#endif
