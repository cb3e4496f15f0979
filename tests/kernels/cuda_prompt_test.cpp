// Steps of many tokens on the GPU against the same op on the CPU, with the kernels of this GPU and with the
// portable ones, with activations in one part and in two. Sizes are odd; inputs are numbers that bf16 holds.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "kernels/dense_choice.h"
#include "kernels/gemm.h"
#include "kernels/graph.h"
#include "kernels/norm_gemm.h"
#include "kernels/run.h"
#include "tests/kernels/support/prompt_paths.h"
#include "tests/support/bf16_floats.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaPrompt : public PromptTest {};

TEST_F(CudaPrompt, Products) {
  for (const NumberType type : kTileTypes)
    for (const auto& [out, in] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {13, 52}, {101, 192}, {300, 769}, {130, 2048}})
      for (const std::int64_t tokens : {2, 9, 33, 140, 175, 300, 530}) {
        const OwnedMatrix w = random_weights(type, out, in, 1);
        const OwnedTensor x = bf16_floats({tokens, in}, 2);
        const OwnedTensor bias = random_floats({out}, 3);
        const OwnedTensor start = random_floats({tokens, out}, 4);
        const OwnedTensor y = random_floats({tokens, out}, 4);
        run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view(), .bias = bias.view(), .accumulate = true});
        const Tensor gx = there(x.view());
        const WeightMatrix gw = there(w.w, Packing::tiles);
        const Tensor gbias = there(bias.view());
        for (const Path& path : kPaths) {
          if (is_left_out(path)) continue;
          set_kernel_path(path.path);
          const Tensor gy = there(start.view());
          const DenseCounts before = dense_counts();
          run(gpu(), Gemm{.x = gx, .w = gw, .y = gy, .bias = gbias, .accumulate = true});
          EXPECT_EQ(dense_counts().cublas - before.cublas, uses_cublas(path) ? 1 : 0);
          EXPECT_EQ(dense_counts().own - before.own, uses_cublas(path) ? 0 : 1);
          expect_near(gy, y.view(), rounding_of(type, path),
                      std::string(path.name) + " " + std::string(name_of(type)) + " " + std::to_string(out) +
                          "x" + std::to_string(in) + ", " + std::to_string(tokens) + " tokens");
        }
      }
}

// Two parts keep what bf16 would lose.
TEST_F(CudaPrompt, TwoPartsKeepSixteenBits) {
  const OwnedMatrix w = random_weights(NumberType::bf16, 70, 500, 1);
  const OwnedTensor x = random_floats({90, 500}, 2);
  const OwnedTensor y = poisoned({90, 70});
  run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
  for (const Path& path : kPaths) {
    if (is_left_out(path)) continue;
    set_kernel_path(path.path);
    const Tensor gy = there(y.view());
    run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::tiles), .y = gy});
    expect_near(gy, y.view(), path.path.most_split_tokens > 0 ? 2e-5 : 4e-3, path.name);
  }
}

TEST_F(CudaPrompt, NormAndThreeProducts) {
  const std::int64_t tokens = 150;
  const std::int64_t in = 320;
  const OwnedTensor x = random_floats({tokens, in}, 1);
  const OwnedTensor norm = random_floats({in}, 2);
  const OwnedTensor normed = poisoned({tokens, in});
  const OwnedTensor bias = random_floats({40}, 3);
  std::vector<OwnedMatrix> w;
  std::vector<OwnedTensor> y;
  for (const std::int64_t out : {200, 40, 136}) {
    w.push_back(random_weights(NumberType::bf16, out, in, static_cast<unsigned>(out)));
    y.push_back(poisoned({tokens, out}));
  }
  run(cpu_, NormGemm{.x = x.view(),
                     .norm = norm.view(),
                     .normed = normed.view(),
                     .parts = {{{.w = w[0].w, .y = y[0].view()},
                                {.w = w[1].w, .bias = bias.view(), .y = y[1].view()},
                                {.w = w[2].w, .y = y[2].view()}}}});
  for (const Path& path : kPaths) {
    if (is_left_out(path)) continue;
    set_kernel_path(path.path);
    const Tensor g[] = {there(y[0].view()), there(y[1].view()), there(y[2].view())};
    run(gpu(),
        NormGemm{.x = there(x.view()),
                 .norm = there(norm.view()),
                 .normed = there(normed.view()),
                 .parts = {{{.w = there(w[0].w, Packing::tiles), .y = g[0]},
                            {.w = there(w[1].w, Packing::tiles), .bias = there(bias.view()), .y = g[1]},
                            {.w = there(w[2].w, Packing::tiles), .y = g[2]}}}});
    for (std::size_t i = 0; i < 3; ++i)
      expect_near(g[i], y[i].view(), path.path.most_split_tokens > 0 ? 2e-5 : 4e-3,
                  path.name + std::string(", product ") + std::to_string(i));
  }
}

// Results side by side are one product of cuBLAS's, and biases find their columns; others are products of
// their own. Recorded into a graph, the sums are the same bits.
TEST_F(CudaPrompt, ProductsSideBySideByCublas) {
  const Path& path = kPaths[4];
  ASSERT_TRUE(uses_cublas(path));
  if (!why_no_cublas().empty()) GTEST_SKIP() << "no cuBLAS: " << why_no_cublas();
  set_kernel_path(path.path);
  const std::int64_t tokens = 150;
  const std::int64_t in = 332;
  const OwnedTensor x = random_floats({tokens, in}, 1);
  const OwnedTensor norm = random_floats({in}, 2);
  const OwnedTensor normed = poisoned({tokens, in});
  const OwnedTensor bias = random_floats({37}, 3);
  for (const bool is_joined : {true, false}) {
    const std::int64_t begin[] = {0, 101, is_joined ? 138 : 140};
    const std::int64_t width[] = {101, 37, 96};
    const auto op = [&](const Tensor& from, const Tensor& by, const Tensor& between, const Tensor& added,
                        const std::vector<WeightMatrix>& w, const Tensor& to) {
      const auto part = [&](std::size_t i) { return to.columns(begin[i], width[i]); };
      return NormGemm{.x = from,
                      .norm = by,
                      .normed = between,
                      .parts = {{{.w = w[0], .y = part(0)},
                                 {.w = w[1], .bias = added, .y = part(1)},
                                 {.w = w[2], .y = part(2)}}}};
    };
    std::vector<OwnedMatrix> owned;
    std::vector<WeightMatrix> w;
    std::vector<WeightMatrix> gw;
    for (const std::int64_t out : width) {
      owned.push_back(random_weights(NumberType::int4, out, in, static_cast<unsigned>(out)));
      w.push_back(owned.back().w);
      gw.push_back(there(owned.back().w, Packing::tiles));
    }
    const OwnedTensor y = filled({tokens, 240}, [](std::int64_t) { return 7.0F; });  // also between the parts
    const Tensor gy = there(y.view());
    const Tensor again = there(y.view());
    run(cpu_, op(x.view(), norm.view(), normed.view(), bias.view(), w, y.view()));
    const Tensor gx = there(x.view());
    const Tensor gnorm = there(norm.view());
    const Tensor gnormed = there(normed.view());
    const Tensor gbias = there(bias.view());
    run(gpu(), op(gx, gnorm, gnormed, gbias, gw, gy));
    expect_near(gy, y.view(), 6e-3, is_joined ? "joined" : "apart");
    const Graph graph(gpu(), [&] { run(gpu(), op(gx, gnorm, gnormed, gbias, gw, again)); });
    graph.launch();
    const OwnedTensor eager = poisoned({tokens, 240});
    const OwnedTensor recorded = poisoned({tokens, 240});
    back(gy, eager.view());
    back(again, recorded.view());
    expect_same_bits(recorded.view(), eager.view(), "recorded");
  }
}

TEST_F(CudaPrompt, RowsOfARouter) {
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16})
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{8, 77}, {130, 512}, {40, 100}}) {
      const OwnedMatrix w = random_weights(type, out, in, 1);
      const OwnedTensor x = random_floats({150, in}, 2);
      const OwnedTensor y = poisoned({150, out});
      const Tensor gy = there(y.view());
      run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::rows), .y = gy});
      run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
      expect_near(gy, y.view(), 1e-6,
                  std::string(name_of(type)) + " " + std::to_string(out) + "x" + std::to_string(in));
    }
}

}  // namespace
}  // namespace moetune

#endif
