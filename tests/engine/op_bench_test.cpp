// Timing single ops: what is run is what the model has, costs are those of a calculation by hand, and an op
// that writes nothing is noticed.
#include "engine/bench/op_bench.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/option_rules.h"
#include "tests/support/message_of.h"
#include "tests/support/small_presets.h"

namespace moetune {
namespace {

constexpr std::int64_t kColdBytes = 4 << 20;

TEST(OpBench, TimesEveryOpOfEveryPreset) {
  for (const std::string& model : testing::small_presets()) {
    const auto checkpoint = open_checkpoint(model);
    const std::vector<std::string> ops = op_names(checkpoint->spec());
    OpBench bench(checkpoint, default_options(DeviceKind::cpu),
                  {.ops = ops, .tokens = 3, .context = 9, .cold_bytes = kColdBytes, .read_bytes = 1 << 16});
    for (const std::string& op : ops)
      for (const std::int64_t tokens : {1, 3}) {
        const OpTiming timing = bench.time(op, tokens, 3);
        EXPECT_EQ(timing.microseconds.size(), 3U) << model << " " << op;
        EXPECT_GT(*std::ranges::min_element(timing.microseconds), 0.0) << model << " " << op;
        EXPECT_GT(timing.cost.bytes, 0.0) << model << " " << op;
        EXPECT_EQ(timing.layers, op == "head" ? 1 : kWantedLayers) << model << " " << op;
        EXPECT_EQ(timing.is_flushed, timing.cost.bytes * timing.layers < kColdBytes) << model << " " << op;
      }
  }
}

TEST(OpBench, AsAPromptToo) {
  const auto checkpoint =
      open_checkpoint(testing::small_presets().at(4));  // latent attention, groups, a shared expert
  OpBench bench(checkpoint, default_options(DeviceKind::cpu),
                {.ops = {"attention", "layer"}, .tokens = 5, .context = 8, .is_prompt = true});
  EXPECT_GT(bench.time("attention", 5, 2).cost.bytes, 0.0);
  EXPECT_GT(bench.time("layer", 4, 2).experts_touched, 0.9);
}

TEST(OpBench, FewerLayersWhereMemoryIsShort) {
  const auto checkpoint = open_checkpoint(testing::small_presets().front());
  OpBenchSetup setup{.ops = {"moe"}, .tokens = 1, .context = 1};
  const OpBench unlimited(checkpoint, default_options(DeviceKind::cpu), setup);
  EXPECT_EQ(unlimited.spec().layers, kWantedLayers);
  setup.device_bytes = 600 << 10;  // 8 experts of three bf16 matrices of 32 x 64 a layer
  OpBench limited(checkpoint, default_options(DeviceKind::cpu), setup);
  EXPECT_LT(limited.spec().layers, kWantedLayers);
  EXPECT_EQ(limited.time("moe", 1, 1).layers, limited.spec().layers);
  OpBenchSetup few = setup;
  few.device_bytes = 0;
  few.wanted_layers = 3;
  EXPECT_EQ(OpBench(checkpoint, default_options(DeviceKind::cpu), few).spec().layers, 3);
  setup.device_bytes = 1 << 10;
  EXPECT_THROW(OpBench(checkpoint, default_options(DeviceKind::cpu), setup), NoFeasibleConfiguration);
}

TEST(OpBench, ALimitOfTimeEndsTheRunsAndIsSaid) {
  const auto checkpoint = open_checkpoint(testing::small_presets().front());
  OpBenchSetup setup{.ops = {"moe", "attention"}, .tokens = 1, .context = 9};
  OpBench bench(checkpoint, default_options(DeviceKind::cpu), setup);
  const OpTiming beyond = bench.time("moe", 1, 3, 0.0);
  EXPECT_TRUE(beyond.microseconds.empty()) << "one run went beyond it";
  EXPECT_GT(beyond.first_seconds, 0.0);
  EXPECT_EQ(beyond.layers, 1) << "and no other layer was tried";
  const OpTiming few = bench.time("moe", 1, 100'000'000, 0.2);
  EXPECT_GE(few.microseconds.size(), 1U);
  EXPECT_LT(few.microseconds.size(), 100'000'000U);
  setup.most_seconds = 0.0;
  setup.context = 9 * 1024;
  EXPECT_NE(message_of<InputError>([&] {
              OpBench(checkpoint, default_options(DeviceKind::cpu), setup);
            }).find("filling the KV cache of 1 sequences with 9216 tokens each takes about"),
            std::string::npos);
}

// What a layer reads is said of the layers that were timed, not of those for which no time was left.
TEST(OpBench, FewerLayersForLackOfTimeAreSaidAndCounted) {
  const auto checkpoint = open_checkpoint(testing::small_presets().at(1));
  OpBenchSetup setup{.ops = {"moe"}, .tokens = 3, .context = 1};
  OpBench bench(checkpoint, default_options(DeviceKind::cpu), setup);
  const OpTiming all = bench.time("moe", 3, 1);
  EXPECT_EQ(all.layers, kWantedLayers);
  EXPECT_FALSE(all.has_fewer_layers);
  // The least time in which anything is timed leaves none for further layers.
  OpTiming few;
  for (double seconds = 1e-6; few.microseconds.empty(); seconds *= 2.0)
    few = bench.time("moe", 3, 1, seconds);
  ASSERT_LT(few.layers, kWantedLayers);
  EXPECT_TRUE(few.has_fewer_layers);
  setup.wanted_layers = few.layers;
  OpBench same(checkpoint, default_options(DeviceKind::cpu), setup);
  const OpTiming whole = same.time("moe", 3, 1);
  EXPECT_EQ(whole.layers, few.layers);
  EXPECT_FALSE(whole.has_fewer_layers) << "the model has no more";
  EXPECT_EQ(few.experts_touched, whole.experts_touched);
  EXPECT_EQ(few.cost.bytes, whole.cost.bytes);
  EXPECT_NE(few.experts_touched, all.experts_touched) << "else this shows nothing";
}

// Experts alone are sent where the first layer's router says, in every layer.
TEST(OpBench, ExpertsAloneAreThoseOfOneRouter) {
  const auto checkpoint = open_checkpoint(testing::small_presets().at(1));
  OpBench bench(checkpoint, default_options(DeviceKind::cpu),
                {.ops = {"experts"}, .tokens = 3, .context = 1});
  const double touched = bench.time("experts", 3, 1).experts_touched;
  EXPECT_EQ(touched, std::floor(touched));
}

TEST(OpBench, FillsTheCacheInWhatTheWeightsLeave) {
  EXPECT_DOUBLE_EQ(fill_seconds(45.0, 10.0), 35.0);
  EXPECT_DOUBLE_EQ(fill_seconds(45.0, 40.0), 15.0);
  EXPECT_DOUBLE_EQ(fill_seconds(45.0, 100.0), 15.0);
  EXPECT_EQ(fill_seconds(kNoTimeLimit, 10.0), kNoTimeLimit);
}

TEST(OpBench, RefusesWhatTheModelHasNot) {
  const auto dense = open_checkpoint(testing::small_presets().back());
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { OpBench(dense, default_options(DeviceKind::cpu), {.ops = {"moe"}}); }),
      "'moe' is no op of llama-3-8b"));
}

TEST(OpCost, IsThatOfACalculationByHand) {
  const ModelSpec spec = open_checkpoint("qwen3-30b-a3b")->spec();
  const EngineOptions options = default_options(DeviceKind::cpu);
  const OpWork work{.tokens = 2, .context = 512, .is_prompt = false, .experts_touched = 14.0};
  const double expert = 3.0 * 2048 * 768;
  EXPECT_NEAR(op_cost("experts", spec, options, 1, work).bytes, 14.0 * expert * 2, 14 * 1024);
  EXPECT_DOUBLE_EQ(op_cost("experts", spec, options, 1, work).flops, 2.0 * 16 * expert);
  EXPECT_DOUBLE_EQ(op_cost("router", spec, options, 1, work).bytes, 2.0 * 128 * 2048);
  EXPECT_DOUBLE_EQ(op_cost("attention", spec, options, 1, work).bytes,
                   2.0 * 512 * 2 * 4 * 128 * 4);  // f32 on a CPU
  EXPECT_DOUBLE_EQ(op_cost("attention", spec, options, 1, work).flops, 2.0 * 32 * 256 * 2 * 512);
  EXPECT_DOUBLE_EQ(op_cost("head", spec, options, 1, work).bytes, 2.0 * 151936 * 2048);
  const OpWork prompt{.tokens = 4, .context = 4, .is_prompt = true, .experts_touched = 1.0};
  EXPECT_DOUBLE_EQ(op_cost("attention", spec, options, 1, prompt).flops, 2.0 * 32 * 256 * (1 + 2 + 3 + 4));
}

}  // namespace
}  // namespace moetune
