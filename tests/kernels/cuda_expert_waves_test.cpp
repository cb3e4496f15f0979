// Experts that lie in slots, in two waves, on a GPU against the CPU: by nobody, by everybody, and where some
// choices are no expert.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kernels/expert_ffn.h"
#include "kernels/run.h"
#include "tests/kernels/support/packed_experts.h"
#include "tests/support/bf16_floats.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaExpertWaves : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaExpertWaves, AddUpToThoseOfTheCpu) {
  constexpr std::int64_t kExperts = 9;
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {128, 160}, {256, 768}})
      for (const std::int64_t tokens : {1, 2, 7, 12, 17, 40, 130}) {
        const PackedExperts experts(cpu_, gpu(), type, hidden, inner, kExperts);
        const OwnedTensor chosen = choices_of_three(tokens);
        const OwnedTensor x = bf16_floats({tokens, hidden}, 11);
        const OwnedTensor weights = random_floats({tokens, 3}, 12);
        const OwnedTensor result = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
        const OwnedTensor y = random_floats({tokens, hidden}, 13);
        const Tensor gx = there(x.view());
        const Tensor gchosen = there(chosen.view());
        const Tensor gresult = there(result.view());
        const Tensor gy = there(y.view());
        for (const int wave : {0, 1}) {
          const OwnedTensor slot_of_expert = slots_of_wave(wave);
          run(gpu(), ExpertFfn{.x = gx,
                               .ids = gchosen,
                               .slot_of_expert = there(slot_of_expert.view()),
                               .slots = experts.gslots.data(),
                               .layout = experts.tiles,
                               .rows = gresult});
          run(cpu_, ExpertFfn{.x = x.view(),
                              .ids = chosen.view(),
                              .slot_of_expert = slot_of_expert.view(),
                              .slots = experts.slots.data(),
                              .layout = experts.rows,
                              .rows = result.view()});
        }
        const std::string what = std::string(name_of(type)) + " " + std::to_string(hidden) + "/" +
                                 std::to_string(inner) + ", " + std::to_string(tokens) + " tokens";
        expect_near(gresult, result.view(), 6e-3, what);  // activations are rounded to bf16 before down
        run(gpu(), Combine{.rows = gresult, .weights = there(weights.view()), .y = gy});
        run(cpu_, Combine{.rows = result.view(), .weights = weights.view(), .y = y.view()});
        expect_near(gy, y.view(), 6e-3, "combined " + what);
      }
}

}  // namespace
}  // namespace moetune

#endif
