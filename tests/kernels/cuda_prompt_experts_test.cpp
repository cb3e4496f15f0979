// Experts and feed-forward blocks of many tokens against the CPU, by every kernel there is for them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/run.h"
#include "tests/kernels/support/packed_experts.h"
#include "tests/kernels/support/prompt_paths.h"
#include "tests/support/bf16_floats.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaPromptExperts : public PromptTest {};

// Experts by nobody, by everybody, in two waves, more columns than an item takes.
TEST_F(CudaPromptExperts, ExpertsInSlotsAndWaves) {
  constexpr std::int64_t kExperts = 9;
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] : {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {256, 736}})
      for (const std::int64_t tokens : {2, 40, 300, 700}) {
        const PackedExperts experts(cpu_, gpu(), type, hidden, inner, kExperts);
        const OwnedTensor chosen = choices_of_three(tokens);
        const OwnedTensor x = bf16_floats({tokens, hidden}, 11);
        const OwnedTensor result = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
        const Tensor gx = there(x.view());
        const Tensor gchosen = there(chosen.view());
        std::vector<Tensor> tables;
        for (const int wave : {0, 1}) {
          const OwnedTensor slot_of_expert = slots_of_wave(wave);
          tables.push_back(there(slot_of_expert.view()));
          run(cpu_, ExpertFfn{.x = x.view(),
                              .ids = chosen.view(),
                              .slot_of_expert = slot_of_expert.view(),
                              .slots = experts.slots.data(),
                              .layout = experts.rows,
                              .rows = result.view()});
        }
        for (const Path& path : kPaths) {
          set_kernel_path(path.path);
          const OwnedTensor zeros = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
          const Tensor gresult = there(zeros.view());
          for (const Tensor& table : tables)
            run(gpu(), ExpertFfn{.x = gx,
                                 .ids = gchosen,
                                 .slot_of_expert = table,
                                 .slots = experts.gslots.data(),
                                 .layout = experts.tiles,
                                 .rows = gresult});
          const bool is_exact = path.path.most_split_tokens > 0 && rounding_of(type, path) < 1e-3;
          expect_near(gresult, result.view(), is_exact ? 3e-5 : 8e-3,
                      std::string(path.name) + " " + std::string(name_of(type)) + " " +
                          std::to_string(hidden) + "/" + std::to_string(inner) + ", " +
                          std::to_string(tokens) + " tokens");
        }
      }
}

TEST_F(CudaPromptExperts, FeedForwardOfAllTokens) {
  for (const NumberType type : {NumberType::bf16, NumberType::int8, NumberType::int4_g32}) {
    const std::int64_t tokens = 260;
    const OwnedMatrix gate = random_weights(type, 200, 96, 1);
    const OwnedMatrix up = random_weights(type, 200, 96, 2);
    const OwnedMatrix down = random_weights(type, 96, 200, 3);
    const OwnedTensor x = bf16_floats({tokens, 96}, 4);
    const OwnedTensor gated = poisoned({tokens, 200});
    const OwnedTensor upped = poisoned({tokens, 200});
    const OwnedTensor start = random_floats({tokens, 96}, 5);
    const OwnedTensor y = random_floats({tokens, 96}, 5);
    run(cpu_, FeedForward{.x = x.view(),
                          .gate = gate.w,
                          .up = up.w,
                          .down = down.w,
                          .gated = gated.view(),
                          .upped = upped.view(),
                          .y = y.view()});
    for (const Path& path : kPaths) {
      if (is_left_out(path)) continue;
      set_kernel_path(path.path);
      const Tensor gy = there(start.view());
      const OwnedTensor between = poisoned({tokens, 400});
      const Tensor side_by_side = there(between.view());
      const DenseCounts before = dense_counts();
      run(gpu(), FeedForward{.x = there(x.view()),
                             .gate = there(gate.w, Packing::tiles),
                             .up = there(up.w, Packing::tiles),
                             .down = there(down.w, Packing::tiles),
                             .gated = side_by_side.columns(0, 200),
                             .upped = side_by_side.columns(200, 200),
                             .y = gy});
      EXPECT_EQ(dense_counts().cublas - before.cublas, uses_cublas(path) ? 3 : 0) << path.name;
      EXPECT_EQ(dense_counts().own - before.own, uses_cublas(path) ? 0 : 3) << path.name;
      expect_near(gy, y.view(), 8e-3, std::string(path.name) + " " + std::string(name_of(type)));
    }
  }
}

}  // namespace
}  // namespace moetune

#endif
