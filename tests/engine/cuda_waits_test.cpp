// Decoding on a GPU never waits for the host, nor the host for it: shown by what returns while the GPU is
// busy with something else, and by what the driver was asked for.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/option_rules.h"
#include "kernels/device.h"
#include "tests/support/busy_gpu.h"
#include "tests/support/cupti_trace.h"
#include "tests/support/golden.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

constexpr int kSequences = 2;

class CudaWaits : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    model_ = golden(GetParam());
    EngineOptions options = default_options(DeviceKind::cuda);
    options.expert_quant = NumberType::bf16;
    engine_ = std::make_unique<Engine>(model_.checkpoint, options,
                                       EngineLimits{.sequences = kSequences,
                                                    .context_tokens = static_cast<int>(model_.ids.size()),
                                                    .step_tokens = 8});
    for (int sequence = 0; sequence < kSequences; ++sequence) {
      engine_->prefill(sequence, std::span(model_.ids).first(8));
      first_.push_back({.id = model_.ids[9], .sequence = sequence, .position = 8});
    }
    engine_->decode(request(4));  // records the graph
  }

  DecodeRequest request(int steps) const {
    return {.first = first_, .steps = steps, .sampling = {.temperature = 1.0F, .seed = 7}};
  }

  Golden model_;
  std::unique_ptr<Engine> engine_;
  std::vector<StepToken> first_;
};

TEST_P(CudaWaits, FourTokensAreEnqueuedWhileTheGpuIsBusy) {
  constexpr double kBusyMs = 100.0;
  using Clock = std::chrono::steady_clock;
  const Decoded expected = engine_->decode(request(4));
  const BusyGpu busy(kBusyMs);
  const Clock::time_point start = Clock::now();
  engine_->start_decode(request(4));
  const double enqueued_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const bool returned_before = !busy.is_ending();
  const Decoded decoded = engine_->finish_decode();
  std::printf("%s: four tokens enqueued in %.2f ms behind a kernel of %.0f ms\n", GetParam().c_str(),
              enqueued_ms, kBusyMs);
  EXPECT_TRUE(returned_before) << "start_decode() waited for the GPU";
  EXPECT_TRUE(busy.is_ending()) << "the engine's kernels found a place: nothing was shown";
  EXPECT_EQ(decoded.ids, expected.ids);
}

TEST_P(CudaWaits, ATokenIsOneLaunchAndNoQuestion) {
  if (const std::string problem = why_no_cupti(); !problem.empty())
    GTEST_SKIP() << "no CUPTI, nothing was recorded: " << problem;
  constexpr int kSteps = 16;
  start_cupti_trace();
  engine_->start_decode(request(kSteps));
  const CudaCalls during = finish_cupti_trace();
  engine_->finish_decode();
  ASSERT_EQ(during.dropped, 0);
  EXPECT_EQ(during.calls.contains("cudaGraphLaunch") ? during.calls.at("cudaGraphLaunch") : 0, kSteps)
      << during.text();
  EXPECT_EQ(during.waits, 0) << during.text();
  EXPECT_EQ(during.copies_to_host, 0) << during.text();
  for (const char* question : {"Synchronize", "Query", "WaitEvent", "Malloc", "MemAlloc", "Free"})
    EXPECT_EQ(during.named(question), 0) << question << ": " << during.text();
  // Beside the graphs: the clock's start and the copies of the inputs, not one per token.
  EXPECT_LE(during.named("cudaLaunchKernel"), 1) << during.text();

  // With the end of the run: one wait for all tokens, and they reach the host without a copy.
  start_cupti_trace();
  const Decoded decoded = engine_->decode(request(kSteps));
  const CudaCalls whole = finish_cupti_trace();
  ASSERT_EQ(whole.dropped, 0);
  EXPECT_EQ(whole.calls.contains("cudaGraphLaunch") ? whole.calls.at("cudaGraphLaunch") : 0, kSteps)
      << whole.text();
  EXPECT_EQ(whole.waits, 1) << whole.text();
  EXPECT_EQ(whole.named("cudaStreamSynchronize"), 1) << whole.text();
  EXPECT_EQ(whole.named("Query"), 0) << whole.text();
  EXPECT_EQ(whole.copies_to_host, 0) << whole.text();
  EXPECT_EQ(decoded.ids.size(), static_cast<std::size_t>(kSteps * kSequences));
  std::printf("%s: %d tokens, the driver was asked for\n%s\n", GetParam().c_str(), kSteps,
              whole.text().c_str());
}

// Without graphs the trace has to see something else, or the test above proves nothing.
TEST_P(CudaWaits, TheTraceSeesTheDifference) {
  if (const std::string problem = why_no_cupti(); !problem.empty())
    GTEST_SKIP() << "no CUPTI, nothing was recorded: " << problem;
  start_cupti_trace();
  const std::vector<StepToken> step = {{.id = model_.ids[9], .sequence = 0, .position = 8}};
  engine_->forward(step);
  const CudaCalls calls = finish_cupti_trace();
  ASSERT_EQ(calls.dropped, 0);
  EXPECT_EQ(calls.named("cudaGraphLaunch"), 0) << calls.text();
  EXPECT_GE(calls.named("cudaLaunchKernel"), spec_of(*model_.checkpoint).layers) << calls.text();
  EXPECT_GE(calls.waits, 1) << calls.text();
  EXPECT_GE(calls.copies_to_host, 1) << calls.text();
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaWaits, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

}  // namespace
}  // namespace moetune::testing

#endif
