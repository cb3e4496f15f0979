// Prefetch on a GPU: the bits of the resident model, the counts of the CPU engine, and no wait for what is
// brought in ahead.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "tests/engine/support/cuda_cache.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

class CudaCachePrefetch : public CudaCacheTest {};

// What guesses, and who brings in what it guessed.
struct Ahead {
  const char* prefetch;
  const char* miss;
};
constexpr Ahead kAhead[] = {{"repeat", "dma"},  {"next_gate", "dma"},  {"markov", "dma"},  {"table", "dma"},
                            {"repeat", "pull"}, {"next_gate", "pull"}, {"markov", "pull"}, {"table", "pull"}};

// What a guess brings in goes beside the layers that run; which expert is used never depends on it.
TEST_P(CudaCachePrefetch, GivesTheBitsOfTheResidentModel) {
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

TEST_P(CudaCachePrefetch, DecodesWhatTheResidentModelDecodes) {
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
TEST_P(CudaCachePrefetch, CountsWhatTheCpuEngineCounts) {
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

// The host learns a layer's choice as it does anyway; the guess of a gate is a second answer in every layer
// but the last.
TEST_P(CudaCachePrefetch, WaitsForNoCopy) {
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

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaCachePrefetch, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

}  // namespace
}  // namespace moetune::testing

#endif
