// What of an expert cache on a GPU is refused before anything is loaded, by the knob that is named.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/probe.h"
#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

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
  EXPECT_EQ(objection(spec_of(*open_checkpoint("qwen3-30b-a3b:fold=4")), {{"expert_cache", "0.5"}}),
            where_it_fits(14));
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
