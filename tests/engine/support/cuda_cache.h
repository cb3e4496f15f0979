// Engines on a GPU with an expert cache, over a golden checkpoint and 40 of its tokens.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "kernels/device.h"
#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {

class CudaCacheTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    expected_ = golden(GetParam());
    expected_.ids.resize(40);
  }

  // experts: of a layer, in slots; 0: all.
  EngineOptions options(const Settings& settings, double experts = 0.0) const {
    EngineOptions made = default_options(DeviceKind::cuda);
    made.expert_quant = NumberType::bf16;
    for (const auto& [knob, value] : settings) set_knob(made, knob, value);
    if (experts > 0.0) made.expert_cache_fraction = experts / spec().experts;
    return made;
  }
  Engine engine(const EngineOptions& with, int sequences = 1) const {
    return Engine(expected_.checkpoint, with,
                  {.sequences = sequences, .context_tokens = 40, .step_tokens = 40 * sequences});
  }
  const ModelSpec& spec() const { return spec_of(*expected_.checkpoint); }
  // Experts of a layer: half of them, or what one token needs.
  double about_half() const { return std::max(1.0 * spec().experts_per_token, 0.5 * spec().experts); }

  // Logits of `sequences` sequences that go through their tokens side by side.
  std::vector<float> side_by_side(Engine& engine, int sequences) const {
    std::vector<float> logits;
    for (int position = 0; position < 12; ++position) {
      std::vector<StepToken> step;
      for (int sequence = 0; sequence < sequences; ++sequence)
        step.push_back({.id = expected_.ids[static_cast<std::size_t>((position + 3 * sequence) % 40)],
                        .sequence = sequence,
                        .position = position});
      const std::span<const float> part = engine.forward(step);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  // A sequence begins with another token each.
  std::vector<StepToken> first_tokens(int sequences) const {
    std::vector<StepToken> first;
    for (int sequence = 0; sequence < sequences; ++sequence)
      first.push_back(
          {.id = expected_.ids[static_cast<std::size_t>(sequence)], .sequence = sequence, .position = 0});
    return first;
  }

  DecodeRequest request(const std::vector<StepToken>& first, int steps) const {
    return {.first = first, .steps = steps, .sampling = {.temperature = 1.0F, .seed = 5}};
  }

  Golden expected_;
};

inline constexpr const char* kPolicies[] = {"lru", "lfu", "layer_lru", "pinned"};

}  // namespace moetune::testing

#endif
