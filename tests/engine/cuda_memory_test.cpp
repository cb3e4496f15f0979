// The memory plan against what the card says is gone, and an engine that stays within a smaller card.
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "kernels/device_memory.h"
#include "tests/support/golden.h"
#include "tests/support/source_dir.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

constexpr double kShare = 0.02;
constexpr double kBytes = 64.0 * 1024 * 1024;

struct Planned {
  std::string model;
  Settings settings;
  EngineLimits limits;
};

class CudaMemoryPlan : public ::testing::TestWithParam<Planned> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  }
};

// A step of a prompt and a run of steps that feed themselves: whatever is allocated late is allocated then.
void use(Engine& engine, int sequences) {
  std::vector<StepToken> step;
  for (int i = 0; i < engine.limits().step_tokens; ++i)
    step.push_back({.id = i % engine.spec().vocabulary,
                    .sequence = i % sequences,
                    .position = i / sequences,
                    .wants_logits = i < engine.limits().logit_rows});
  engine.forward(step);
  std::vector<StepToken> first;
  for (int sequence = 0; sequence < sequences; ++sequence)
    first.push_back({.id = 1, .sequence = sequence, .position = 1});
  engine.decode({.first = first, .steps = 6});
}

// What an engine takes of the card. The card tells only what is free for all programs together: an attempt
// counts when as much is free after the engine has gone as was before it came. Empty: none did.
struct Taken {
  std::int64_t loading = 0;
  std::int64_t use = 0;
  std::int64_t stats = 0;
};
template <class Make>
std::optional<Taken> bytes_taken(const Make& make, int sequences) {
  constexpr int kAttempts = 10;
  Device card = Cuda(0);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Taken taken;
    const std::int64_t before = free_device_bytes(card);
    {
      const auto engine = make();
      taken.loading = before - free_device_bytes(card);
      use(*engine, sequences);
      taken.use = before - free_device_bytes(card);
      taken.stats = engine->stats().device_bytes;
    }
    if (free_device_bytes(card) == before) return taken;
  }
  return std::nullopt;
}

TEST_P(CudaMemoryPlan, IsWhatTheCardLoses) {
  const Planned& planned = GetParam();
  const auto checkpoint =
      planned.model == "tiny_moe" ? golden("tiny_moe").checkpoint : open_checkpoint(planned.model);
  EngineOptions options = default_options(DeviceKind::cuda);
  for (const auto& [knob, value] : planned.settings) set_knob(options, knob, value);
  // Code and the context's own memory are there once an engine has run: they are no part of a plan.
  {
    Engine first(checkpoint, options, planned.limits);
    use(first, planned.limits.sequences);
  }
  const auto taken =
      bytes_taken([&] { return std::make_unique<Engine>(checkpoint, options, planned.limits); },
                  planned.limits.sequences);
  if (!taken) GTEST_SKIP() << "other programs took and gave back memory of the GPU all the time";
  const auto plan = static_cast<double>(plan_memory(checkpoint->spec(), options, planned.limits).total());
  const auto loaded = static_cast<double>(taken->loading);
  const auto used = static_cast<double>(taken->use);
  std::printf("%s: planned %.1f MiB, loading took %.1f, use brought it to %.1f\n", planned.model.c_str(),
              plan / 1048576.0, loaded / 1048576.0, used / 1048576.0);
  EXPECT_LE(std::fabs(used - plan), std::max(kShare * plan, kBytes));
  EXPECT_LE(used - loaded, 16.0 * 1048576)
      << "memory grew while the engine ran: op_scratch_bytes() is too small";
  EXPECT_NEAR(static_cast<double>(taken->stats), plan, kShare * plan);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CudaMemoryPlan,
    ::testing::Values(
        Planned{"tiny_moe", {}, {.sequences = 1, .context_tokens = 160, .step_tokens = 128, .logit_rows = 1}},
        Planned{"tiny_moe",
                {{"expert_quant", "int4"}},
                {.sequences = 8, .context_tokens = 250, .step_tokens = 256, .logit_rows = 8}},
        Planned{"qwen3-30b-a3b:layers=4",
                {},
                {.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1}},
        Planned{"qwen3-30b-a3b:layers=4",
                {{"expert_quant", "int4"}},
                {.sequences = 32, .context_tokens = 640, .step_tokens = 2048, .logit_rows = 32}},
        Planned{"deepseek-v2-lite:layers=4",
                {},
                {.sequences = 4, .context_tokens = 2048, .step_tokens = 512, .logit_rows = 4}},
        Planned{"gpt-oss-20b:layers=3",
                {},
                {.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1}},
        Planned{"mixtral-8x7b:layers=2",
                {},
                {.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1}}),
    [](const auto& planned) {
      std::string name = planned.param.model + "_" + std::to_string(planned.index);
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

// As on a card of that size: the plan's own words decide, and what fits by them is held within it.
TEST(CudaMemory, OfASmallerCardIsEnoughForWhatFitsIt) {
  if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  const auto checkpoint = open_checkpoint("qwen3-30b-a3b:layers=4");
  const EngineLimits limits{.sequences = 1, .context_tokens = 640, .step_tokens = 512, .logit_rows = 1};
  EngineOptions options = default_options(DeviceKind::cuda);
  const std::int64_t card_bytes = std::int64_t{3} << 30;
  ASSERT_TRUE(objection_to(checkpoint->spec(), options, limits, card_bytes)) << "bf16 would need more";
  options.expert_quant = NumberType::int4;
  ASSERT_EQ(objection_to(checkpoint->spec(), options, limits, card_bytes), std::nullopt);
  const auto taken = bytes_taken([&] { return std::make_unique<Engine>(checkpoint, options, limits); }, 1);
  if (!taken) GTEST_SKIP() << "other programs took and gave back memory of the GPU all the time";
  EXPECT_LE(taken->use, card_bytes);
}

}  // namespace
}  // namespace moetune::testing

#endif
