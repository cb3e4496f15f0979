// The engine on a GPU: its logits, and decoding that feeds itself against decoding that the host feeds.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/device.h"
#include "tests/support/golden.h"
#include "tests/support/relative_error.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

// Relative error norm with routing free: bf16 weights and activations. The small random checkpoints have
// experts whose scores lie closer than that, and a token that goes elsewhere gives other logits: they are
// held to less here.
constexpr double kTrained = 1e-2;
constexpr double kRandom = 2e-1;

class CudaDecode : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    options_.device = DeviceKind::cuda;
    options_.router = RouterPlacement::gpu;
    options_.dense_quant = NumberType::bf16;
    options_.expert_quant = NumberType::bf16;
    expected_ = golden(GetParam());
  }
  Engine engine(int sequences = 1, int step_tokens = 256) {
    return Engine(expected_.checkpoint, options_,
                  {.sequences = sequences,
                   .context_tokens = static_cast<int>(expected_.ids.size()),
                   .step_tokens = step_tokens});
  }
  std::size_t vocabulary() const {
    return static_cast<std::size_t>(spec_of(*expected_.checkpoint).vocabulary);
  }

  EngineOptions options_;
  Golden expected_;
};

TEST_P(CudaDecode, LogitsAreThoseOfTransformers) {
  Engine prefill = engine();
  Engine decode = engine();
  const std::vector<float> at_once = teacher_forced(prefill, expected_.ids, expected_.ids.size());
  const std::vector<float> one_by_one = teacher_forced(decode, expected_.ids, 1);
  const double error = relative_error(at_once, expected_.logits);
  const double between = relative_error(one_by_one, at_once);
  std::printf("%s: relative error of prefill %.2e, decode against prefill %.2e\n", GetParam().c_str(), error,
              between);
  EXPECT_LE(error, GetParam() == "tiny_moe" ? kTrained : kRandom);
  EXPECT_LE(between, GetParam() == "tiny_moe" ? kTrained : kRandom);
}

TEST_P(CudaDecode, StepsThatFeedThemselvesChooseTheSameTokens) {
  const int steps = 12;
  for (const bool graph : {true, false}) {
    options_.cuda_graph = graph;
    Engine on_its_own = engine(2);
    Engine by_steps = engine(2);
    std::vector<StepToken> step;
    for (const int sequence : {0, 1}) {
      const std::vector<std::int32_t> prompt(expected_.ids.begin() + sequence,
                                             expected_.ids.begin() + sequence + 9);
      on_its_own.prefill(sequence, prompt);
      by_steps.prefill(sequence, prompt);
      step.push_back({.id = expected_.ids[static_cast<std::size_t>(20 + sequence)],
                      .sequence = sequence,
                      .position = 9});
    }
    const Decoded decoded = on_its_own.decode({.first = step, .steps = steps});
    for (int done = 0; done < steps; ++done) {
      const std::span<const float> logits = by_steps.forward(step);
      for (std::size_t row = 0; row < 2; ++row) {
        const auto* from = logits.data() + row * vocabulary();
        const auto best = static_cast<std::int32_t>(std::max_element(from, from + vocabulary()) - from);
        EXPECT_EQ(decoded.ids[static_cast<std::size_t>(done) * 2 + row], best)
            << "step " << done << ", graph " << graph;
        step[row].id = best;
        ++step[row].position;
      }
      EXPECT_GT(decoded.step_seconds[static_cast<std::size_t>(done)], 0.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaDecode, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

}  // namespace
}  // namespace moetune::testing

#endif
