// Routed experts, shared ones beside them and dense feed-forward blocks on a GPU, against the CPU: on both
// sides of every size at which another path is taken.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

// Experts packed twice: rows for the CPU, tiles for the GPU.
struct Experts {
  ExpertLayout rows;
  ExpertLayout tiles;
  Buffer slots;
  std::vector<std::byte> packed;
};
Experts random_experts(Device& cpu, NumberType type, std::int64_t hidden, std::int64_t inner,
                       std::int64_t count) {
  Experts experts{
      ExpertLayout::of(type, hidden, inner), ExpertLayout::of(type, hidden, inner, Packing::tiles), {}, {}};
  experts.slots = Buffer(cpu, experts.rows.bytes * count);
  experts.packed.resize(static_cast<std::size_t>(experts.tiles.bytes * count));
  Cpu packer(1);
  for (std::int64_t slot = 0; slot < count; ++slot) {
    const auto part = [&](const MatrixLayout& matrix, std::int64_t from, std::int64_t to, unsigned seed) {
      const OwnedTensor values = random_floats({matrix.out, matrix.in}, seed + static_cast<unsigned>(slot));
      std::byte* block = experts.slots.data() + slot * experts.rows.bytes + from;
      run(cpu, Quantize{.x = values.view(), .y = block, .layout = matrix});
      pack_tiles(packer, {block, matrix}, experts.packed.data() + slot * experts.tiles.bytes + to);
    };
    part(experts.rows.gate, 0, 0, 100);
    part(experts.rows.up, experts.rows.up_offset, experts.tiles.up_offset, 200);
    part(experts.rows.down, experts.rows.down_offset, experts.tiles.down_offset, 300);
  }
  return experts;
}

// Few tokens keep sixteen bits of the activations; f16 weights become bf16 whatever the step.
double tolerance_for(NumberType type, std::int64_t tokens, std::int64_t few) {
  return tokens <= few && type != NumberType::f16 ? 3e-4 : 8e-3;
}

struct RoutedCase {
  std::int64_t k, tokens;
  bool drops = false;  // some choices are no expert: id -1, weight 0
};

// Shared experts beside the routed ones.
struct SharedCase {
  NumberType type;
  std::int64_t inner;
};

// The same op on a GPU and on a CPU, with random experts.
class CudaRoutedFfn : public GpuTest {
 protected:
  Device cpu_ = cpu();

  void make_experts(NumberType type, std::int64_t hidden, std::int64_t inner, std::int64_t count) {
    experts_ = random_experts(cpu_, type, hidden, inner, count);
    count_ = count;
    slots_ = Buffer(gpu(), experts_.tiles.bytes * count);
    copy_to_device(gpu(), experts_.packed.data(), slots_.data(), experts_.tiles.bytes * count);
    table_.clear();
    for (std::int64_t expert = 0; expert < count; ++expert)
      table_.push_back(static_cast<std::int32_t>(count - 1 - expert));
  }

  void expect_same(const RoutedCase& at, double tolerance, const std::optional<SharedCase>& beside = {}) {
    const std::int64_t hidden = experts_.rows.gate.in;
    std::mt19937 random(9);
    std::vector<std::int32_t> choice;
    const OwnedTensor weights = random_floats({at.tokens, at.k}, 12);
    for (std::int64_t token = 0; token < at.tokens; ++token)
      for (std::int64_t i = 0, start = static_cast<std::int64_t>(random()) % count_; i < at.k; ++i) {
        const bool is_dropped = at.drops && i > 0 && static_cast<std::int64_t>(choice.size()) % 3 != 1;
        if (is_dropped) weights.view().f32()[choice.size()] = 0.0F;
        choice.push_back(is_dropped ? -1 : static_cast<std::int32_t>((token * 2 + i + start) % count_));
      }
    const OwnedTensor chosen = ids({at.tokens, at.k}, choice);
    const OwnedTensor slot_of_expert = ids(table_);
    const OwnedTensor x = random_floats({at.tokens, hidden}, 11);
    const OwnedTensor rows = poisoned({at.tokens, at.k, hidden});
    const OwnedTensor y = random_floats({at.tokens, hidden}, 13);
    const Tensor gy = there(y.view());
    const Tensor gx = there(x.view());
    const RoutedFfn on_gpu{.ffn = {.x = gx,
                                   .ids = there(chosen.view()),
                                   .slot_of_expert = there(slot_of_expert.view()),
                                   .slots = slots_.data(),
                                   .layout = experts_.tiles,
                                   .rows = there(rows.view())},
                           .weights = there(weights.view()),
                           .y = gy};
    const RoutedFfn on_cpu{.ffn = {.x = x.view(),
                                   .ids = chosen.view(),
                                   .slot_of_expert = slot_of_expert.view(),
                                   .slots = experts_.slots.data(),
                                   .layout = experts_.rows,
                                   .rows = rows.view()},
                           .weights = weights.view(),
                           .y = y.view()};
    std::string with;
    if (beside) {
      const OwnedMatrix gate = random_weights(beside->type, beside->inner, hidden, 21);
      const OwnedMatrix up = random_weights(beside->type, beside->inner, hidden, 22);
      const OwnedMatrix down = random_weights(beside->type, hidden, beside->inner, 23);
      const OwnedTensor gated = poisoned({at.tokens, beside->inner});
      const OwnedTensor upped = poisoned({at.tokens, beside->inner});
      run(gpu(), MoeFfn{.routed = on_gpu,
                        .shared = {.x = gx,
                                   .gate = there(gate.w, Packing::tiles),
                                   .up = there(up.w, Packing::tiles),
                                   .down = there(down.w, Packing::tiles),
                                   .gated = there(gated.view()),
                                   .upped = there(upped.view()),
                                   .y = gy}});
      run(cpu_, MoeFfn{.routed = on_cpu,
                       .shared = {.x = x.view(),
                                  .gate = gate.w,
                                  .up = up.w,
                                  .down = down.w,
                                  .gated = gated.view(),
                                  .upped = upped.view(),
                                  .y = y.view()}});
      with = ", beside them " + std::string(name_of(beside->type)) + " " + std::to_string(beside->inner);
    } else {
      run(gpu(), on_gpu);
      run(cpu_, on_cpu);
    }
    expect_near(gy, y.view(), tolerance,
                std::string(name_of(experts_.rows.gate.type)) + " " + std::to_string(hidden) + "/" +
                    std::to_string(experts_.rows.gate.out) + ", k " + std::to_string(at.k) + ", " +
                    std::to_string(at.tokens) + " tokens" + (at.drops ? ", some dropped" : "") + with);
  }

 private:
  Experts experts_;
  std::int64_t count_ = 0;
  Buffer slots_;
  std::vector<std::int32_t> table_;
};

TEST_F(CudaRoutedFfn, FewTokens) {
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {256, 768}, {48, 2128}}) {
      make_experts(type, hidden, inner, 9);
      for (const std::int64_t k : {1, 2, 3, 8})
        for (const std::int64_t tokens : {1, 2, 9}) expect_same({k, tokens}, tolerance_for(type, tokens, 1));
    }
}

TEST_F(CudaRoutedFfn, SomeChoicesAreDropped) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 64, 9);
    for (const std::int64_t k : {2, 3, 8})
      for (const std::int64_t tokens : {1, 2, 9})
        expect_same({k, tokens, true}, tolerance_for(type, tokens, 1));
  }
}

// More tiles than multiprocessors, of gate and up or of down; and a table of slots too long to be asked for
// at once.
TEST_F(CudaRoutedFfn, SeveralTilesABlock) {
  for (const NumberType type : {NumberType::bf16, NumberType::int8, NumberType::int4, NumberType::mxfp4}) {
    make_experts(type, 4096, 128, 4);
    for (const std::int64_t k : {1, 3}) expect_same({k, 1}, tolerance_for(type, 1, 1));
    make_experts(type, 64, 4096, 4);
    for (const std::int64_t k : {1, 3}) expect_same({k, 1}, tolerance_for(type, 1, 1));
    make_experts(type, 64, 32, 130);
    expect_same({8, 1}, tolerance_for(type, 1, 1));
  }
}

// Shared experts of the routed ones' type and of others, in the same launch or in their own: narrower and
// wider than one expert, with choices that are dropped, and for several tokens.
TEST_F(CudaRoutedFfn, SharedExpertsBesideThem) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 96, 9);
    for (const NumberType shared_type : {type, NumberType::bf16, NumberType::int4})
      for (const std::int64_t inner : {36, 208})
        for (const std::int64_t k : {1, 6, 8})
          for (const std::int64_t tokens : {1, 2}) {
            const double tolerance =
                std::max(tolerance_for(type, tokens, 1), tolerance_for(shared_type, tokens, 4));
            expect_same({k, tokens, k == 6}, tolerance, SharedCase{shared_type, inner});
          }
  }
}

// The shapes for which it is done, cut down in one direction each: several tiles a block on both sides.
TEST_F(CudaRoutedFfn, SharedExpertsOfManyTiles) {
  for (const NumberType type : {NumberType::bf16, NumberType::int4}) {
    make_experts(type, 4096, 128, 4);
    expect_same({3, 1}, tolerance_for(type, 1, 1), SharedCase{NumberType::bf16, 256});
    make_experts(type, 64, 4096, 4);
    expect_same({3, 1}, tolerance_for(type, 1, 1), SharedCase{NumberType::bf16, 8192});
  }
}

// More tokens than decoding usually has, but few for every expert.
TEST_F(CudaRoutedFfn, ManyExperts) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 96, 48);
    for (const std::int64_t tokens : {33, 47, 72, 73})
      for (const bool drops : {false, true}) expect_same({4, tokens, drops}, tolerance_for(type, tokens, 1));
  }
}

class CudaFeedForward : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaFeedForward, IsThatOfTheCpu) {
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {128, 1000}})
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 8, 9}) {
        const OwnedMatrix gate = random_weights(type, inner, hidden, 1);
        const OwnedMatrix up = random_weights(type, inner, hidden, 2);
        const OwnedMatrix down = random_weights(type, hidden, inner, 3);
        const OwnedTensor x = random_floats({tokens, hidden}, 4);
        const OwnedTensor gated = poisoned({tokens, inner});
        const OwnedTensor upped = poisoned({tokens, inner});
        const OwnedTensor y = random_floats({tokens, hidden}, 5);
        const Tensor gy = there(y.view());
        run(gpu(), FeedForward{.x = there(x.view()),
                               .gate = there(gate.w, Packing::tiles),
                               .up = there(up.w, Packing::tiles),
                               .down = there(down.w, Packing::tiles),
                               .gated = there(gated.view()),
                               .upped = there(upped.view()),
                               .y = gy});
        run(cpu_, FeedForward{.x = x.view(),
                              .gate = gate.w,
                              .up = up.w,
                              .down = down.w,
                              .gated = gated.view(),
                              .upped = upped.view(),
                              .y = y.view()});
        expect_near(gy, y.view(), tolerance_for(type, tokens, 4),
                    std::string(name_of(type)) + " " + std::to_string(hidden) + "/" + std::to_string(inner) +
                        ", " + std::to_string(tokens) + " tokens");
      }
}

}  // namespace
}  // namespace moetune

#endif
