// top_k_rule and reroute_margin over an expert cache on a GPU: the same whoever routes and wherever experts
// lie.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/support/cuda_cache.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

class CudaCacheRules : public CudaCacheTest {};

// A rule leaves fewer experts, or others; where they lie is another matter.
TEST_P(CudaCacheRules, RulesOfTheChoiceGiveTheSameBitsWhereverExpertsLie) {
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

TEST_P(CudaCacheRules, ReroutesTheSameOnTheDeviceAndForTheHost) {
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
TEST_P(CudaCacheRules, RulesActWhereTheHostRoutesAndComputes) {
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

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaCacheRules, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

}  // namespace
}  // namespace moetune::testing

#endif
