// dense_quant and prefill_chunk on a GPU do what they say: the same logits as far as the type allows, and
// other times.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/bench/op_bench.h"
#include "engine/option_rules.h"
#include "tests/support/golden.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

class CudaKnobs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  }
  static EngineOptions options(const Settings& settings) {
    EngineOptions options = default_options(DeviceKind::cuda);
    for (const auto& [knob, value] : settings) set_knob(options, knob, value);
    return options;
  }
};

// Attention of Mixtral's shape has 84 MB of projections in bf16: fewer bits are fewer bytes, and fewer bytes
// less time.
TEST_F(CudaKnobs, DenseQuantMakesAttentionFaster) {
  const auto checkpoint = open_checkpoint("mixtral-8x7b");
  double bf16_us = 0.0;
  for (const auto& [type, most_share] : std::vector<std::pair<const char*, double>>{
           {"bf16", 1.0}, {"fp8", 0.97}, {"int8", 0.97}, {"int4", 0.85}}) {
    OpBench bench(checkpoint, options({{"dense_quant", type}, {"expert_quant", "int4"}}),
                  {.ops = {"attention_half"}, .context = 64, .cold_bytes = std::int64_t{256} << 20});
    const OpTiming timing = bench.time("attention_half", 1, 15);
    const double us = median_of(timing.microseconds);
    if (bf16_us == 0.0) bf16_us = us;
    std::printf("dense_quant=%s: %.2f us, %.1f MB, %d layers\n", type, us, 1e-6 * timing.cost.bytes,
                timing.layers);
    EXPECT_LE(us, most_share * bf16_us) << type;
  }
}

// The host's threads are not the device's.
TEST_F(CudaKnobs, CpuThreadsChangeAndTheModelStaysOnTheGpu) {
  const Golden model = golden("tiny_moe");
  Engine engine(model.checkpoint, options({{"expert_cache", "0.5"}, {"miss", "cpu"}}),
                {.sequences = 1, .context_tokens = 40, .step_tokens = 40});
  const std::span<const std::int32_t> ids = std::span(model.ids).first(20);
  const std::vector<float> before = teacher_forced(engine, ids, 1);
  EngineOptions with_one = engine.options();
  with_one.cpu_threads = 1;
  ASSERT_TRUE(engine.reconfigure(with_one));
  engine.drop_expert_cache();
  expect_identical(teacher_forced(engine, ids, 1), before, "with one thread");
}

TEST_F(CudaKnobs, PrefillChunkCutsThePromptAndChangesNothingElse) {
  const Golden model = golden("tiny_moe");
  const std::span<const std::int32_t> prompt = std::span(model.ids).first(200);
  const auto vocabulary = static_cast<std::size_t>(spec_of(*model.checkpoint).vocabulary);
  const auto last_logits = [&](const char* chunk) {
    Engine engine(model.checkpoint, options({{"prefill_chunk", chunk}}),
                  {.sequences = 1, .context_tokens = 256, .step_tokens = 256, .logit_rows = 1});
    const std::span<const float> logits = engine.prefill(0, prompt);
    EXPECT_EQ(engine.limits().step_tokens, std::string(chunk) == "auto" ? 256 : std::stoi(chunk));
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> whole = last_logits("auto");
  ASSERT_EQ(whole.size(), vocabulary);
  for (const char* chunk : {"1", "7", "64", "200"}) {
    const double error = relative_error(last_logits(chunk), whole);
    std::printf("prefill_chunk=%s: relative error to one step %.2e\n", chunk, error);
    EXPECT_LE(error, 2e-2)
        << chunk;  // a prompt's activations are rounded to bf16, those of few tokens are not
  }
}

// Weights are read once a chunk: small chunks read them more often.
TEST_F(CudaKnobs, LongerChunksMakePromptsFaster) {
  constexpr int kPrompt = 512;
  const auto checkpoint = open_checkpoint("qwen3-30b-a3b:layers=4");
  std::vector<std::int32_t> prompt(kPrompt);
  for (int i = 0; i < kPrompt; ++i)
    prompt[static_cast<std::size_t>(i)] = (i * 7919) % spec_of(*checkpoint).vocabulary;
  double before = 0.0;
  Engine engine(checkpoint, options({{"expert_quant", "int4"}}),
                {.sequences = 1, .context_tokens = kPrompt, .step_tokens = kPrompt, .logit_rows = 1});
  for (const char* chunk : {"16", "128", "512"}) {
    ASSERT_TRUE(engine.reconfigure(options({{"expert_quant", "int4"}, {"prefill_chunk", chunk}})))
        << "weights were to stay";
    std::vector<double> ms;
    for (int run = 0; run < 7; ++run) {
      const auto start = std::chrono::steady_clock::now();
      engine.prefill(0, prompt);
      ms.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    const double median = median_of(ms);
    std::printf("prefill_chunk=%s: %d tokens in %.2f ms\n", chunk, kPrompt, median);
    if (before > 0.0) {
      EXPECT_LT(median, before) << chunk;
    }
    before = median;
  }
}

}  // namespace
}  // namespace moetune::testing

#endif
