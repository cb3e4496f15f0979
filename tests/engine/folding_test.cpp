// Folding: which layers share weights, how far a model must be folded, and when that is refused.
#include "engine/folding.h"

#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "engine/presets.h"

namespace moetune {
namespace {

ModelSpec folded(const std::string& model, int fold) {
  ModelSpec spec = open_preset(model).spec;
  spec.fold = fold;
  return spec;
}

TEST(Folding, LayersOfAKindTakeTurns) {
  const ModelSpec spec =
      folded("deepseek-v3:layers=10", 3);  // 3 dense layers, 7 that route: one and three sets
  std::vector<int> own;
  for (int layer = 0; layer < spec.layers; ++layer) own.push_back(weight_layer(spec, layer));
  EXPECT_EQ(own, (std::vector<int>{0, 0, 0, 3, 4, 5, 3, 4, 5, 3}));
  EXPECT_EQ(distinct_moe_layers(spec), 3);
  for (int layer = 0; layer < 7; ++layer) EXPECT_EQ(weight_moe_layer(spec, layer), layer % 3);
  for (int layer = 0; layer < 10; ++layer)
    EXPECT_EQ(weight_layer(folded("deepseek-v3:layers=10", 1), layer), layer);
}

TEST(Folding, ReuseDistanceIsWhatIsReadInBetween) {
  const EngineOptions options;
  EXPECT_EQ(reuse_distance_bytes(folded("mixtral-8x7b:layers=8", 1), options), 0);
  // Mixtral bf16: 789 MB of weights per layer and token.
  EXPECT_NEAR(static_cast<double>(reuse_distance_bytes(folded("mixtral-8x7b:layers=8", 2), options)),
              4 * 789e6, 4 * 8e6);
  EXPECT_NEAR(static_cast<double>(reuse_distance_bytes(folded("mixtral-8x7b:layers=8", 8), options)), 789e6,
              8e6);
  // The three dense layers of DeepSeek-V3 follow one another: folded they share one set at once.
  const ModelSpec v3 = folded("deepseek-v3", 4);
  EXPECT_LT(reuse_distance_bytes(v3, options), std::int64_t{700} << 20);
}

TEST(Folding, FoldsAsLittleAsFits) {
  const EngineLimits limits{.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1};
  const EngineOptions options;
  const ModelSpec spec = open_preset("qwen3-30b-a3b").spec;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  constexpr std::int64_t l2 = 60 << 20;
  EXPECT_EQ(choose_fold(spec, options, limits, 140 * gib, l2).fold, 1);
  const Fold half = choose_fold(spec, options, limits, 40 * gib, l2);
  EXPECT_EQ(half.fold, 2) << half.objection;
  for (const std::int64_t device : {40 * gib, 20 * gib, 8 * gib}) {
    const Fold fold = choose_fold(spec, options, limits, device, l2);
    ASSERT_GT(fold.fold, 1) << fold.objection;
    ModelSpec tried = spec;
    tried.fold = fold.fold;
    EXPECT_LE(plan_memory(tried, options, limits).total(), device);
    EXPECT_GT(reuse_distance_bytes(tried, options), l2);
    tried.fold -= 1;
    EXPECT_GT(plan_memory(tried, options, limits).total(), device);
  }
}

TEST(Folding, IsRefusedWhereACacheWouldHoldTheWeights) {
  const EngineLimits limits{.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1};
  const ModelSpec spec = open_preset("qwen3-30b-a3b").spec;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const Fold near_cache = choose_fold(spec, {}, limits, 8 * gib, 5 * gib);
  EXPECT_EQ(near_cache.fold, 0);
  EXPECT_NE(near_cache.objection.find("within the caches"), std::string::npos) << near_cache.objection;
  const Fold too_small = choose_fold(spec, {}, limits, gib, 0);
  EXPECT_EQ(too_small.fold, 0);
  EXPECT_NE(too_small.objection.find("even with one set of weights"), std::string::npos)
      << too_small.objection;
}

}  // namespace
}  // namespace moetune
