// Every op on the GPU against the same op on the CPU, over odd sizes. Inputs of products are numbers that
// bf16 holds, so that only the order of summation differs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/run.h"
#include "kernels/sample.h"
#include "kernels/swiglu.h"
#include "tests/support/bf16_floats.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaOps : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaOps, RowWiseOps) {
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 7}, {3, 52}, {5, 192}, {2, 2048}, {2, 7168}}) {
    const OwnedTensor x = random_floats({rows, width}, 1);
    const OwnedTensor weight = random_floats({width}, 2);
    const OwnedTensor y = random_floats({rows, width}, 3);
    const std::string size = std::to_string(rows) + "x" + std::to_string(width);
    const Tensor gx = there(x.view());
    const Tensor gy = there(y.view());
    const Tensor gw = there(weight.view());
    run(gpu(), Add{.x = gx, .y = gy});
    run(cpu_, Add{.x = x.view(), .y = y.view()});
    expect_near(gy, y.view(), 1e-6, "add " + size);
    run(gpu(), RmsNorm{.x = gx, .weight = gw, .y = gy, .eps = 1e-5F});
    run(cpu_, RmsNorm{.x = x.view(), .weight = weight.view(), .y = y.view(), .eps = 1e-5F});
    expect_near(gy, y.view(), 1e-5, "norm " + size);
    run(gpu(), SwiGlu{.gate = gx, .up = gy, .y = gy});
    run(cpu_, SwiGlu{.gate = x.view(), .up = y.view(), .y = y.view()});
    expect_near(gy, y.view(), 1e-5, "swiglu " + size);
    run(gpu(), Fill{.x = gy, .value = 2.5F});
    run(cpu_, Fill{.x = y.view(), .value = 2.5F});
    expect_near(gy, y.view(), 0.0, "fill " + size);
  }
}

TEST_F(CudaOps, Embedding) {
  const OwnedTensor tokens = ids({4, 0, 100, 100, 7});
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedMatrix table = random_weights(type, 101, 52, 3);
    const OwnedTensor y = poisoned({5, 52});
    const Tensor gy = there(y.view());
    run(gpu(), Embed{.table = there(table.w, Packing::rows), .ids = there(tokens.view()), .y = gy});
    run(cpu_, Embed{.table = table.w, .ids = tokens.view(), .y = y.view()});
    expect_near(gy, y.view(), 0.0, std::string(name_of(type)));
  }
}

TEST_F(CudaOps, GemmInRows) {
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedMatrix w = random_weights(type, 13, 77, 1);
    const OwnedTensor x = random_floats({5, 77}, 2);
    const OwnedTensor y = poisoned({5, 13});
    const Tensor gy = there(y.view());
    run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::rows), .y = gy});
    run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
    expect_near(gy, y.view(), 1e-5, std::string(name_of(type)));
  }
}

TEST_F(CudaOps, GemmInTiles) {
  for (const NumberType type : kTileTypes)
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                  {13, 52},
                                  {16, 128},
                                  {101, 192},
                                  {64, 769},
                                  {9000, 64},
                                  {130, 2048}})
      for (const std::int64_t tokens : {1, 3, 5, 8, 9, 33, 64}) {
        const OwnedMatrix w = random_weights(type, out, in, 1);
        const OwnedTensor x = bf16_floats({tokens, in}, 2);
        const OwnedTensor bias = random_floats({out}, 3);
        const OwnedTensor y = random_floats({tokens, out}, 4);
        const Tensor gy = there(y.view());
        run(gpu(), Gemm{.x = there(x.view()),
                        .w = there(w.w, Packing::tiles),
                        .y = gy,
                        .bias = there(bias.view()),
                        .accumulate = true});
        run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view(), .bias = bias.view(), .accumulate = true});
        // f16 weights are rounded to bf16 on their way into the tensor cores; in large steps so is a weight
        // with its scale.
        const bool is_prompt = tokens >= kernel_path().least_prompt_tokens;
        const bool has_scale =
            type == NumberType::fp8 || type == NumberType::int4 || type == NumberType::int4_g32;
        // The values of int4 are multiplied with 136 on top, which is taken off the sums: five bits of the
        // f32 sums go with it.
        const double exact = type == NumberType::int4 || type == NumberType::int4_g32 ? 4e-6 : 2e-6;
        expect_near(gy, y.view(), type == NumberType::f16 || (is_prompt && has_scale) ? 4e-3 : exact,
                    std::string(name_of(type)) + " " + std::to_string(out) + "x" + std::to_string(in) + ", " +
                        std::to_string(tokens) + " tokens");
      }
}

TEST_F(CudaOps, RotaryEmbedding) {
  const OwnedTensor positions = ids({0, 1, 513, 100000});
  for (const bool interleaved : {false, true}) {
    const OwnedTensor x = random_floats({4, 3, 22}, 5);
    const RopeFrequencies frequencies = rope_frequencies(10000.0, 20);
    const OwnedTensor radians = filled(
        {10}, [&](std::int64_t i) { return frequencies.radians_per_position[static_cast<std::size_t>(i)]; });
    const Tensor gx = there(x.view());
    const auto op = [&](const Tensor& on, const Tensor& at, const Tensor& turn) {
      return Rope{.x = on.columns(2, 20),
                  .positions = at,
                  .frequencies = turn,
                  .scale = 1.25F,
                  .interleaved = interleaved};
    };
    run(gpu(), op(gx, there(positions.view()), there(radians.view())));
    run(cpu_, op(x.view(), positions.view(), radians.view()));
    expect_near(gx, x.view(), 1e-6, interleaved ? "interleaved" : "halves");
  }
}

TEST_F(CudaOps, SamplingDrawsTheSameTokens) {
  const OwnedTensor logits = random_floats({9, 7003}, 8);  // several blocks a row
  for (int row = 0; row < 9; ++row)
    logits.view().f32()[row * 7003 + 6000] = logits.view().f32()[row * 7003 + 17] = 9.0F;  // ties
  const OwnedTensor keys = ids({0, 1, 2, 3, 4, 5, 6, 7, 1000000});
  for (const float temperature : {0.0F, 0.7F, 2.0F}) {
    OwnedTensor drawn(cpu_, NumberType::i32, {9});
    OwnedTensor result(cpu_, NumberType::i32, {9});
    const Tensor gdrawn = there(drawn.view());
    run(gpu(), Sample{.logits = there(logits.view()),
                      .keys = there(keys.view()),
                      .ids = gdrawn,
                      .temperature = temperature,
                      .seed = 99});
    run(cpu_, Sample{.logits = logits.view(),
                     .keys = keys.view(),
                     .ids = drawn.view(),
                     .temperature = temperature,
                     .seed = 99});
    back(gdrawn, result.view());
    for (int i = 0; i < 9; ++i)
      EXPECT_EQ(result.view().i32()[i], drawn.view().i32()[i]) << "row " << i << " at " << temperature;
  }
}

}  // namespace
}  // namespace moetune

#endif
