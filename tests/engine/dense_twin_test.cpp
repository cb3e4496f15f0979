#include "engine/dense_twin.h"

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "tests/support/small_presets.h"

namespace moetune {
namespace {

TEST(DenseTwin, HasNoExpertsAndAsManyActiveParameters) {
  for (const char* name :
       {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "deepseek-v2-lite", "gpt-oss-120b"}) {
    SCOPED_TRACE(name);
    const ModelSpec spec = open_preset(name).spec;
    const Preset twin = dense_twin(spec, spec.experts_per_token);
    EXPECT_EQ(twin.spec.moe_layer_count(), 0);
    EXPECT_EQ(twin.spec.hidden, spec.hidden);
    EXPECT_EQ(twin.spec.layers, spec.layers);
    const auto active = static_cast<double>(active_feed_forward_parameters(spec, spec.experts_per_token));
    const auto dense = static_cast<double>(active_feed_forward_parameters(twin.spec, 0));
    EXPECT_LT(std::abs(dense / active - 1.0), 1e-3);
    EXPECT_NE(twin.spec.content_hash, spec.content_hash);
  }
}

TEST(DenseTwin, OfFewerExpertsPerTokenIsNarrower) {
  const ModelSpec spec = open_preset("qwen3-30b-a3b").spec;
  EXPECT_LT(dense_twin(spec, 4).spec.dense_inner, dense_twin(spec, 8).spec.dense_inner);
}

TEST(DenseTwin, EveryPresetsTwinRuns) {
  for (const std::string& name : testing::small_presets()) {
    SCOPED_TRACE(name);
    const ModelSpec spec = open_preset(name).spec;
    const auto checkpoint = std::make_shared<const Checkpoint>(dense_twin(spec, spec.experts_per_token));
    Engine engine(checkpoint, {}, {.sequences = 1, .context_tokens = 8, .step_tokens = 4});
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    for (const float logit : engine.prefill(0, prompt)) ASSERT_TRUE(std::isfinite(logit));
  }
}

}  // namespace
}  // namespace moetune
