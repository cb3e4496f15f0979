// The engine on a GPU: against the logits that transformers computed in float32, against itself, and against
// the CPU engine. With the experts forced only the arithmetic differs; the tolerance is that of bf16
// operands.
#include <cmath>
#include <cstdio>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "engine/dense_shapes.h"
#include "engine/option_rules.h"
#include "kernels/dense_choice.h"
#include "kernels/device.h"
#include "kernels/kernel_path.h"
#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

// Of the error's norm to the result's. Up to four tokens at a time, and in prompts of up to 63, activations
// keep sixteen bits of mantissa, so that a step is off by its weights and cache only.
constexpr double kBf16 = 1e-2;
// In a prompt a weight of fp8 or int4 is rounded to bf16 together with its scale. Not so int8, whose rows
// have one scale each, and mxfp4, whose scales are powers of two.
constexpr double kScaledPrompt = 2e-2;
constexpr double kFreeKl = 1e-3;

// KL(reference || ours), nats, mean over tokens.
double mean_kl(std::span<const float> reference, std::span<const float> ours, std::size_t vocabulary) {
  const auto log_sum = [&](std::span<const float> row) {
    const double most = *std::ranges::max_element(row);
    double sum = 0.0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - most);
    return most + std::log(sum);
  };
  double kl = 0.0;
  for (std::size_t begin = 0; begin < reference.size(); begin += vocabulary) {
    const auto p = reference.subspan(begin, vocabulary);
    const auto q = ours.subspan(begin, vocabulary);
    const double p_sum = log_sum(p);
    const double q_sum = log_sum(q);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      const double log_p = static_cast<double>(p[i]) - p_sum;
      kl += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_sum));
    }
  }
  return kl / static_cast<double>(reference.size() / vocabulary);
}

// Settings under which a GPU takes the checkpoint: its tensor cores know no f32.
Settings with_types_of_a_gpu(const Golden& model, Settings settings) {
  EngineOptions options = options_with(settings);
  if (expert_type(spec_of(*model.checkpoint), options) == NumberType::f32)
    settings.emplace_back("expert_quant", "bf16");
  return settings;
}

Engine gpu_engine(const Golden& model, const Settings& settings = {}) {
  EngineOptions options = default_options(DeviceKind::cuda);
  for (const auto& [knob, value] : with_types_of_a_gpu(model, settings)) set_knob(options, knob, value);
  const int tokens = static_cast<int>(model.ids.size());
  return Engine(model.checkpoint, options, {.sequences = 1, .context_tokens = tokens, .step_tokens = tokens});
}

// What the CPU engine answers under the same knobs, and which experts it takes.
struct Expected {
  std::vector<float> logits;
  Routing routing;
};
Expected on_the_cpu(const Golden& model, const Settings& settings = {}) {
  Engine engine = engine_over(model, settings);
  Expected expected;
  record_routing(engine, expected.routing);
  expected.logits = teacher_forced(engine, model.ids, model.ids.size());
  return expected;
}

class CudaEngine : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  }
};

TEST_P(CudaEngine, WithTheSameExpertsEqualsTransformers) {
  const Golden model = golden(GetParam());
  const Routing routing = on_the_cpu(model).routing;
  Engine engine = gpu_engine(model);
  replay_routing(engine, routing);
  const std::vector<float> prefill = teacher_forced(engine, model.ids, model.ids.size());
  const std::vector<float> decode = teacher_forced(engine, model.ids, 1);
  EXPECT_LE(relative_error(prefill, model.logits), kBf16) << "prefill";
  EXPECT_LE(relative_error(decode, model.logits), kBf16) << "decode";
  EXPECT_LE(relative_error(decode, prefill), kBf16) << "decode against prefill";
}

// A router near a tie may choose another expert for a rounding; how often is printed.
TEST_P(CudaEngine, FreeRunningIsNearTransformers) {
  const Golden model = golden(GetParam());
  Engine engine = gpu_engine(model);
  const std::vector<float> logits = teacher_forced(engine, model.ids, 1);
  Routing ours;
  record_routing(engine, ours);  // only now: a watched engine takes another path through the experts
  const std::vector<float> watched = teacher_forced(engine, model.ids, 1);
  engine.observe_routing({});
  const double flips = flip_rate(ours, on_the_cpu(model).routing);
  const double error = relative_error(logits, model.logits);
  const double kl =
      mean_kl(model.logits, logits, static_cast<std::size_t>(spec_of(*model.checkpoint).vocabulary));
  std::printf("%s on the GPU, free-running: flip rate %.4f, relative error %.2e, mean KL %.2e nats\n",
              GetParam().c_str(), flips, error, kl);
  const double watched_kl =
      mean_kl(model.logits, watched, static_cast<std::size_t>(spec_of(*model.checkpoint).vocabulary));
  // Of random routers more are near a tie, and each flip costs more, than of a trained one.
  const bool is_trained = GetParam() == "tiny_moe";
  EXPECT_LE(kl, is_trained ? kFreeKl : 10 * kFreeKl);
  EXPECT_LE(watched_kl, is_trained ? kFreeKl : 10 * kFreeKl) << "watched";
  EXPECT_LE(flips, is_trained ? 0.02 : 0.05);
  if (flips == 0.0) {
    EXPECT_LE(error, kBf16);
  }
}

TEST_P(CudaEngine, TheSameStepGivesTheSameBits) {
  const Golden model = golden(GetParam());
  Engine engine = gpu_engine(model);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, model.ids.size()}) {
    const std::vector<float> first = teacher_forced(engine, model.ids, chunk);
    expect_identical(teacher_forced(engine, model.ids, chunk), first, "steps of " + std::to_string(chunk));
  }
}

// Dense products by cuBLAS, which these small models would not be given, against the own kernels: the same
// rounded operands, summed in another order.
TEST_P(CudaEngine, PromptsByCublasAreThoseOfTheOwnKernels) {
  if (!why_no_cublas().empty()) GTEST_SKIP() << "no cuBLAS: " << why_no_cublas();
  const Golden model = golden(GetParam());
  const Settings settings{{"dense_quant", "bf16"}};
  const Routing routing = on_the_cpu(model, settings).routing;
  Engine engine = gpu_engine(model, settings);
  replay_routing(engine, routing);
  const auto logits = [&](DenseChoice choice) {
    KernelPath path;
    path.least_prompt_tokens = 2;
    path.most_split_tokens = 0;  // cuBLAS is never given activations in two parts
    path.most_sliced_tokens = 0;
    path.dense = choice;
    set_kernel_path(path);
    std::vector<float> result = teacher_forced(engine, model.ids, model.ids.size());
    set_kernel_path(KernelPath{});
    return result;
  };
  const std::vector<float> own = logits(DenseChoice::own);
  const DenseCounts before = dense_counts();
  const std::vector<float> by_cublas = logits(DenseChoice::cublas);
  EXPECT_GE(dense_counts().cublas - before.cublas, 2 * spec_of(*model.checkpoint).layers);
  EXPECT_LE(relative_error(by_cublas, own), kBf16);
}

// A run of steps that feed themselves, as a graph, against the same steps asked for one by one.
TEST_P(CudaEngine, DecodingOnItsOwnChoosesWhatStepsChoose) {
  const Golden model = golden(GetParam());
  const auto vocabulary = static_cast<std::size_t>(spec_of(*model.checkpoint).vocabulary);
  Engine engine = gpu_engine(model);
  const std::vector<float> logits = teacher_forced(engine, model.ids, 1);
  std::vector<std::int32_t> expected;
  for (std::size_t begin = 0; begin < logits.size(); begin += vocabulary) {
    const auto row = std::span(logits).subspan(begin, vocabulary);
    expected.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
  }
  std::vector<std::int32_t> forced(model.ids.begin() + 1, model.ids.end());
  forced.push_back(0);  // after the last step, never used
  const std::vector<StepToken> first = step_of(model.ids, 0, 1);
  for (const char* run : {"the first run", "a graph from its first step on"}) {
    const Decoded decoded = engine.decode(
        {.first = first, .steps = static_cast<int>(model.ids.size()), .forced = forced, .sampling = {}});
    EXPECT_EQ(decoded.ids, expected) << run;
  }
}

TEST_P(CudaEngine, KvTypes) {
  const Golden model = golden(GetParam());
  const Routing routing = on_the_cpu(model).routing;
  for (const char* type : {"f32", "f16", "bf16"}) {
    Engine engine = gpu_engine(model, {{"kv_type", type}});
    replay_routing(engine, routing);
    EXPECT_LE(relative_error(teacher_forced(engine, model.ids, model.ids.size()), model.logits), kBf16)
        << type << " prefill";
    EXPECT_LE(relative_error(teacher_forced(engine, model.ids, 1), model.logits), kBf16) << type << " decode";
  }
}

// A cache of bytes is another model, the same one on both sides. But what stands before a cache differs in
// its last bits, a number then rounds the other way here and there, and is as far off as the type's own
// rounding: no further than that are the logits.
TEST_P(CudaEngine, KvTypesOfBytesAreThoseOfTheCpu) {
  const Golden model = golden(GetParam());
  const Routing routing = on_the_cpu(model).routing;
  const auto with_cpu = [&](const Settings& settings) {
    Engine engine = engine_over(model, with_types_of_a_gpu(model, settings));
    replay_routing(engine, routing);
    return teacher_forced(engine, model.ids, model.ids.size());
  };
  const std::vector<float> exact = with_cpu({{"kv_type", "f32"}});
  for (const auto& [type, least, most] : {std::tuple{"fp8", 1e-2, 2e-1}, {"int8", 1e-3, 4e-2}}) {
    const std::vector<float> expected = with_cpu({{"kv_type", type}});
    const double own = relative_error(expected, exact);
    EXPECT_GE(own, least) << type;
    EXPECT_LE(own, most) << type;
    Engine engine = gpu_engine(model, {{"kv_type", type}});
    replay_routing(engine, routing);
    EXPECT_LE(relative_error(teacher_forced(engine, model.ids, model.ids.size()), expected), own + kBf16)
        << type << " prefill";
    EXPECT_LE(relative_error(teacher_forced(engine, model.ids, 1), expected), own + kBf16)
        << type << " decode";
  }
}

// Quantized weights are the same numbers on both sides: only the activations are rounded.
TEST_P(CudaEngine, QuantizedWeightsAreThoseOfTheCpu) {
  const Golden model = golden(GetParam());
  for (const char* knob : {"expert_quant", "dense_quant"})
    for (const char* type : {"fp8", "int8", "int4", "int4_g32", "mxfp4", "bf16"}) {
      const Settings settings = with_types_of_a_gpu(model, {{knob, type}});
      const Expected expected = on_the_cpu(model, settings);
      Engine engine = gpu_engine(model, settings);
      replay_routing(engine, expected.routing);
      const bool is_rounded = type == std::string("fp8") || std::string(type).starts_with("int4");
      const double prompt = is_rounded ? kScaledPrompt : kBf16;
      EXPECT_LE(relative_error(teacher_forced(engine, model.ids, model.ids.size()), expected.logits), prompt)
          << knob << "=" << type << " prefill";
      EXPECT_LE(relative_error(teacher_forced(engine, model.ids, 1), expected.logits), kBf16)
          << knob << "=" << type << " decode";
    }
}

TEST_P(CudaEngine, FewerExpertsAreThoseOfTheCpu) {
  const Golden model = golden(GetParam());
  const Settings settings = with_types_of_a_gpu(model, {{"top_k", "1"}});
  const Expected expected = on_the_cpu(model, settings);
  Engine engine = gpu_engine(model, settings);
  replay_routing(engine, expected.routing);
  EXPECT_LE(relative_error(teacher_forced(engine, model.ids, 1), expected.logits), kBf16);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaEngine, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

// Out of memory is an outcome: the next engine runs in the same process.
TEST(CudaMemory, ThatIsNotThereIsBadAlloc) {
  if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  const Golden model = golden("tiny_moe");
  const EngineLimits too_many{.sequences = 1 << 22,
                              .context_tokens = 256,
                              .step_tokens = 8,
                              .logit_rows = 8};  // terabytes of KV cache
  EXPECT_THROW(Engine(model.checkpoint, default_options(DeviceKind::cuda), too_many), std::bad_alloc);
  Engine engine = gpu_engine(model);
  EXPECT_EQ(teacher_forced(engine, model.ids, model.ids.size()).size(), model.logits.size());
}

}  // namespace
}  // namespace moetune::testing

#endif
