// Experts that lie in slots, in two waves, on a GPU against the CPU: by nobody, by everybody, and where some
// choices are no expert.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
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
        const ExpertLayout rows = ExpertLayout::of(type, hidden, inner);
        const ExpertLayout tiles = ExpertLayout::of(type, hidden, inner, Packing::tiles);
        Buffer slots(cpu_, rows.bytes * kExperts);
        std::vector<std::byte> packed(static_cast<std::size_t>(tiles.bytes * kExperts));
        Cpu packer(1);
        for (std::int64_t slot = 0; slot < kExperts; ++slot) {
          const auto part = [&](const MatrixLayout& matrix, std::int64_t from, std::int64_t to,
                                unsigned seed) {
            const OwnedTensor values =
                bf16_floats({matrix.out, matrix.in}, seed + static_cast<unsigned>(slot));
            std::byte* block = slots.data() + slot * rows.bytes + from;
            run(cpu_, Quantize{.x = values.view(), .y = block, .layout = matrix});
            pack_tiles(packer, {block, matrix}, packed.data() + slot * tiles.bytes + to);
          };
          part(rows.gate, 0, 0, 100);
          part(rows.up, rows.up_offset, tiles.up_offset, 200);
          part(rows.down, rows.down_offset, tiles.down_offset, 300);
        }
        Buffer gslots(gpu(), tiles.bytes * kExperts);
        copy_to_device(gpu(), packed.data(), gslots.data(), tiles.bytes * kExperts);

        std::mt19937 random(9);
        std::vector<std::int32_t> choice;
        for (std::int64_t token = 0; token < tokens; ++token) {  // expert 4 by nobody, expert 2 by everybody
          choice.push_back(2);
          choice.push_back(token % 7 == 3 ? -1 : random() % 2 == 0 ? 0 : 8);  // -1: no expert, its row stays
          choice.push_back(5 + static_cast<std::int32_t>(random() % 3));
        }
        const OwnedTensor chosen = ids({tokens, 3}, choice);
        const OwnedTensor x = bf16_floats({tokens, hidden}, 11);
        const OwnedTensor weights = random_floats({tokens, 3}, 12);
        const OwnedTensor result = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
        const OwnedTensor y = random_floats({tokens, hidden}, 13);
        const Tensor gx = there(x.view());
        const Tensor gchosen = there(chosen.view());
        const Tensor gresult = there(result.view());
        const Tensor gy = there(y.view());
        // Two waves: even experts, then odd ones; slot of expert e is 8 - e.
        for (const int wave : {0, 1}) {
          std::vector<std::int32_t> table;
          for (std::int32_t expert = 0; expert < kExperts; ++expert)
            table.push_back(expert % 2 == wave ? 8 - expert : -1);
          const OwnedTensor slot_of_expert = ids(table);
          run(gpu(), ExpertFfn{.x = gx,
                               .ids = gchosen,
                               .slot_of_expert = there(slot_of_expert.view()),
                               .slots = gslots.data(),
                               .layout = tiles,
                               .rows = gresult});
          run(cpu_, ExpertFfn{.x = x.view(),
                              .ids = chosen.view(),
                              .slot_of_expert = slot_of_expert.view(),
                              .slots = slots.data(),
                              .layout = rows,
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
