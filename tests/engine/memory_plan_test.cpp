// The plan says before loading what the engine holds after it, and what fits into how much memory.
#include "engine/memory_plan.h"

#include <fmt/format.h>

#include "engine/facts/knobs.h"
#include "engine/facts/size_text.h"
#include "engine/option_rules.h"
#include "engine/scratch.h"
#include "kernels/dense_choice.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace moetune::testing {
namespace {

void expect_planned(const std::shared_ptr<const Checkpoint>& checkpoint, const Settings& settings,
                    const EngineLimits& limits) {
  const EngineOptions options = options_with(settings);
  std::string what = checkpoint->spec().name;
  for (const auto& [knob, value] : settings) what += " " + knob + "=" + value;
  ASSERT_EQ(objection_to(checkpoint->spec(), options, limits, 0), std::nullopt) << what;
  const MemoryPlan plan = plan_memory(checkpoint->spec(), options, limits);
  const Engine engine(checkpoint, options, limits);
  const RunStats stats = engine.stats();
  EXPECT_NEAR(static_cast<double>(plan.total()) / static_cast<double>(stats.device_bytes), 1.0, 0.02) << what;
  EXPECT_EQ(plan.host_bytes, stats.host_bytes) << what;
}

TEST(MemoryPlan, IsWhatTheEngineHolds) {
  const CacheFolder folder;
  const TemporaryDirectory mla;
  const TemporaryDirectory gqa;
  write_random_checkpoint(mla.path().string(), splittable_mla(), 1);
  write_random_checkpoint(gqa.path().string(), splittable_gqa(), 2);
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints{open_checkpoint(mla.path().string()),
                                                             open_checkpoint(gqa.path().string()),
                                                             golden("tiny_moe").checkpoint};
  for (const auto& checkpoint : checkpoints)
    for (const Settings& settings :
         std::vector<Settings>{{},
                               {{"expert_cache", "0.5"}},
                               {{"expert_quant", "int8"}, {"expert_cache", "0.4"}},
                               {{"expert_quant", "int4"}, {"dense_quant", "int4_g32"}},
                               {{"expert_quant", "int4_g32"}, {"tensor_parallel", "2"}},
                               {{"tensor_parallel", "2"}, {"dense_quant", "int8"}, {"expert_cache", "0.7"}},
                               {{"kv_type", "bf16"}, {"prefill_chunk", "8"}},
                               {{"kv_type", "fp8"}},
                               {{"kv_type", "int8"}, {"tensor_parallel", "2"}}})
      for (const EngineLimits& limits :
           {EngineLimits{.sequences = 1, .context_tokens = 90, .step_tokens = 30},
            EngineLimits{.sequences = 5, .context_tokens = 60, .step_tokens = 20, .logit_rows = 5}})
        expect_planned(checkpoint, settings, limits);
  for (const std::string& name : golden_names())
    if (name != "tiny_moe")
      expect_planned(golden(name).checkpoint, {}, {.context_tokens = 60, .step_tokens = 60});
}

TEST(MemoryPlan, CountsSlotsAndPartsByHand) {
  const ModelSpec spec = parse_model_config(splittable_mla().dump(), "config.json");
  const EngineLimits limits{.sequences = 3, .context_tokens = 50, .step_tokens = 10};
  const MemoryPlan plan = plan_memory(spec, options_with({{"expert_cache", "0.5"}}), limits);
  EXPECT_EQ(plan.slots, 12);
  const std::int64_t gate =
      (64 * 72 * 2 + 63) / 64 * 64;  // bf16 rows of 72 or 64 are whole multiples of 16 bytes
  EXPECT_NEAR(static_cast<double>(plan.expert_bytes), static_cast<double>(12 * 3 * gate), 200.0);
  EXPECT_EQ(plan.host_bytes, 24 * 3 * gate);
  EXPECT_EQ(plan.kv_bytes, 3 * 3 * 50 * (24 + 8) * 4);
  EXPECT_EQ(plan_memory(spec, {}, limits).host_bytes, 0);
}

TEST(MemoryPlan, FindsTheLargestCacheThatFits) {
  const ModelSpec spec = golden("tiny_moe").checkpoint->spec();
  const EngineLimits limits{.sequences = 1, .context_tokens = 256, .step_tokens = 64};
  const std::int64_t all = plan_memory(spec, {}, limits).total();
  EXPECT_EQ(largest_cache_fraction(spec, {}, limits, 0), 1.0);
  EXPECT_EQ(largest_cache_fraction(spec, {}, limits, all), 1.0);
  for (const double part : {0.95, 0.8, 0.6}) {
    const auto budget = static_cast<std::int64_t>(part * static_cast<double>(all));
    const double fraction = largest_cache_fraction(spec, {}, limits, budget);
    ASSERT_GT(fraction, 0.0) << part;
    EngineOptions options;
    options.expert_cache_fraction = fraction;
    EXPECT_EQ(objection_to(spec, options, limits, budget), std::nullopt);
    options.expert_cache_fraction = fraction + 1.0 / 64;
    const auto objection = objection_to(spec, options, limits, budget);
    ASSERT_TRUE(objection.has_value()) << part;
    EXPECT_TRUE(has_text(*objection, "expert_cache: "));
    EXPECT_TRUE(has_text(*objection, " missing"));
    EXPECT_TRUE(has_text(*objection, "accepted: at most "));
  }
  // Not even layers x top_k slots fit.
  EXPECT_EQ(largest_cache_fraction(spec, {}, limits, all / 4), 0.0);
  const auto objection = objection_to(spec, {}, limits, all / 4);
  ASSERT_TRUE(objection.has_value());
  EXPECT_TRUE(has_text(*objection, "memory: "));
}

TEST(MemoryPlan, SaysWhatIsMissingWithTheFewestExpertsAndWhatFreesIt) {
  const ModelSpec spec = golden("tiny_moe").checkpoint->spec();
  const EngineLimits limits{.sequences = 1, .context_tokens = 256, .step_tokens = 64};
  EngineOptions fewest;
  fewest.expert_cache_fraction = 1.0 / 64;
  while (objection_to_options(spec, fewest, limits)) fewest.expert_cache_fraction += 1.0 / 64;
  const std::int64_t least = plan_memory(spec, fewest, limits).total();
  EngineOptions small = fewest;
  set_knob(small, "expert_quant", "int4");
  const std::int64_t with_int4 = plan_memory(spec, small, limits).total();
  ASSERT_LT(with_int4, least);
  const auto words = objection_to(spec, {}, limits, with_int4);
  ASSERT_TRUE(words.has_value());
  EXPECT_TRUE(has_text(*words, fmt::format("; {} even with expert_cache={}, the smallest",
                                           size_text(least - with_int4), fewest.expert_cache_fraction)))
      << *words;
  EXPECT_TRUE(has_text(*words, "accepted: expert_quant=int")) << *words;
  EXPECT_FALSE(has_text(*objection_to(spec, {}, limits, with_int4 / 2), "fewer sequences")) << "there is one";
  EngineLimits four = limits;
  four.sequences = 4;
  EXPECT_TRUE(has_text(*objection_to(spec, {}, four, with_int4 / 2), "fewer sequences"));
}

// What a product by cuBLAS takes is part of the plan from the step on that lets one go there.
TEST(MemoryPlan, CountsWhatCublasTakes) {
  const ModelSpec spec = open_checkpoint("llama-3-8b")->spec();
  EngineOptions options;
  options.device = DeviceKind::cuda;
  const Shard whole{0, 1};
  const DenseShape o{NumberType::bf16, spec.hidden, std::int64_t{spec.heads} * spec.head_dim};
  const std::int64_t few = op_scratch_bytes(spec, options, whole, 32);
  EXPECT_LT(few, kCublasWorkspaceBytes);
  const std::int64_t many = op_scratch_bytes(spec, options, whole, 4096);
  ASSERT_TRUE(cublas_pays(o, 4096, own_kernels()));
  if (!why_no_cublas().empty())
    GTEST_SKIP() << "without cuBLAS there is nothing to count: " << why_no_cublas();
  EXPECT_GE(many, cublas_scratch(o, 4096).bytes);
  EXPECT_EQ(op_scratch_bytes(spec, EngineOptions{}, whole, 4096), 0) << "a CPU has none";
}

}  // namespace
}  // namespace moetune::testing
