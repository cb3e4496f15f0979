// Ops that are one kernel on a GPU where a step is small, against what they are composed of on the CPU: on
// both sides of every size at which another path is taken.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "kernels/graph.h"
#include "kernels/next_tokens.h"
#include "kernels/norm_gemm.h"
#include "kernels/number_convert.h"
#include "kernels/place_heads.h"
#include "kernels/rope.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaFusedOps : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaFusedOps, NormAndProducts) {
  for (const NumberType type : kTileTypes)
    for (const std::int64_t in : {52, 192, 2048})
      for (const std::int64_t tokens : {1, 3, 8, 9, 33}) {
        const OwnedMatrix a = random_weights(type, 48, in, 1);
        const OwnedMatrix b = random_weights(type, 13, in, 2);
        const OwnedTensor x = random_floats({tokens, in}, 3);
        const OwnedTensor norm = random_floats({in}, 4);
        const OwnedTensor bias = random_floats({13}, 5);
        const OwnedTensor ya = poisoned({tokens, 48});
        const OwnedTensor yb = poisoned({tokens, 13});
        const OwnedTensor normed = poisoned({tokens, in});
        const Tensor ga = there(ya.view());
        const Tensor gb = there(yb.view());
        run(gpu(), NormGemm{.x = there(x.view()),
                            .norm = there(norm.view()),
                            .normed = there(normed.view()),
                            .eps = 1e-5F,
                            .parts = {{{.w = there(a.w, Packing::tiles), .y = ga},
                                       {.w = there(b.w, Packing::tiles), .bias = there(bias.view()), .y = gb},
                                       {}}}});
        run(cpu_,
            NormGemm{.x = x.view(),
                     .norm = norm.view(),
                     .normed = normed.view(),
                     .eps = 1e-5F,
                     .parts = {
                         {{.w = a.w, .y = ya.view()}, {.w = b.w, .bias = bias.view(), .y = yb.view()}, {}}}});
        const std::string what =
            std::string(name_of(type)) + " " + std::to_string(in) + ", " + std::to_string(tokens);
        expect_near(ga, ya.view(), 6e-3, what);  // activations are rounded to bf16
        expect_near(gb, yb.view(), 6e-3, what);
      }
}

TEST_F(CudaFusedOps, HeadsArePlaced) {
  for (const bool interleaved : {false, true})
    for (const auto& [heads, kv_heads, width] :
         {std::tuple<int, int, std::int64_t>{3, 1, 12}, {8, 2, 64}, {32, 4, 128}}) {
      const OwnedTensor q = random_floats({4, heads, width}, 1);
      const OwnedTensor k = random_floats({4, kv_heads, width}, 2);
      const OwnedTensor v = random_floats({4, kv_heads, width}, 3);
      const OwnedTensor norm = random_floats({width}, 4);
      const OwnedTensor keys = random_floats({2, 9, kv_heads * width}, 5);
      const OwnedTensor values = random_floats({2, 9, kv_heads * width}, 6);
      const OwnedTensor sequences = ids({0, 1, 1, 0});
      const OwnedTensor positions = ids({0, 8, 3, 5});
      const RopeFrequencies rope = rope_frequencies(10000.0, static_cast<int>(width));
      const OwnedTensor radians = filled({width / 2}, [&](std::int64_t i) {
        return rope.radians_per_position[static_cast<std::size_t>(i)];
      });
      const Tensor gq = there(q.view());
      const Tensor gk = there(k.view());
      const Tensor gkeys = there(keys.view());
      const Tensor gvalues = there(values.view());
      const auto op = [&](const Tensor& tq, const Tensor& tk, const Tensor& tv, const Tensor& n,
                          const Tensor& ck, const Tensor& cv, const Tensor& s, const Tensor& p,
                          const Tensor& f) {
        return PlaceHeads{.rows = {{{.x = tq, .norm = n, .rotated = 0},
                                    {.x = tk, .norm = n, .rotated = 0, .cache = ck},
                                    {.x = tv, .cache = cv}}},
                          .sequences = s,
                          .positions = p,
                          .frequencies = f,
                          .scale = 1.25F,
                          .interleaved = interleaved};
      };
      run(gpu(), op(gq, gk, there(v.view()), there(norm.view()), gkeys, gvalues, there(sequences.view()),
                    there(positions.view()), there(radians.view())));
      run(cpu_, op(q.view(), k.view(), v.view(), norm.view(), keys.view(), values.view(), sequences.view(),
                   positions.view(), radians.view()));
      expect_near(gq, q.view(), 1e-6, "q");
      expect_near(gkeys, keys.view(), 1e-6, "keys");
      expect_near(gvalues, values.view(), 0.0, "values");
    }
}

TEST_F(CudaFusedOps, LatentRowsArePlaced) {
  const OwnedTensor q = random_floats({3, 5, 30}, 1);
  const OwnedTensor row = random_floats({3, 1, 26}, 2);
  const OwnedTensor norm = random_floats({20}, 3);
  const OwnedTensor cache = random_floats({2, 9, 26}, 4);
  const OwnedTensor sequences = ids({1, 0, 1});
  const OwnedTensor positions = ids({8, 0, 3});
  const OwnedTensor radians = filled({3}, [](std::int64_t i) { return 1.0F / static_cast<float>(i + 1); });
  const Tensor gq = there(q.view());
  const Tensor gcache = there(cache.view());
  const auto op = [&](const Tensor& tq, const Tensor& tr, const Tensor& n, const Tensor& c, const Tensor& s,
                      const Tensor& p, const Tensor& f) {
    return PlaceHeads{
        .rows = {{{.x = tq, .rotated = 24}, {.x = tr, .norm = n, .rotated = 20, .cache = c}, {}}},
        .sequences = s,
        .positions = p,
        .frequencies = f,
        .interleaved = true};
  };
  run(gpu(), op(gq, there(row.view()), there(norm.view()), gcache, there(sequences.view()),
                there(positions.view()), there(radians.view())));
  run(cpu_, op(q.view(), row.view(), norm.view(), cache.view(), sequences.view(), positions.view(),
               radians.view()));
  expect_near(gq, q.view(), 1e-6, "q");
  expect_near(gcache, cache.view(), 1e-6, "cache");
}

TEST_F(CudaFusedOps, AGraphFeedsItself) {
  const std::int64_t steps = 3;
  OwnedTensor state(gpu(), NumberType::i32, {2});
  OwnedTensor at(gpu(), NumberType::i32, {2});
  OwnedTensor keys(gpu(), NumberType::i32, {2});
  OwnedTensor inputs(gpu(), NumberType::i32, {2});
  const OwnedTensor sampled = ids({7, 9});
  const OwnedTensor forced = ids({steps, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor gsampled = there(sampled.view());
  const Tensor gforced = there(forced.view());
  SharedBuffer log_ids(gpu(), steps * 2 * 4);
  SharedBuffer log_ns(gpu(), (steps + 1) * 8);
  const std::int32_t begin[2] = {0, 1};
  const std::int32_t places[2] = {5, 6};
  copy_to_device(gpu(), begin, state.view().data(), 8);
  copy_to_device(gpu(), places, at.view().data(), 8);
  copy_to_device(gpu(), places, keys.view().data(), 8);
  auto* ns = reinterpret_cast<std::int64_t*>(log_ns.data());
  run(gpu(), StartClock{ns});
  const Graph graph(gpu(), [&] {
    run(gpu(), NextTokens{.state = state.view(),
                          .sampled = gsampled,
                          .forced = gforced,
                          .ids = inputs.view(),
                          .positions = at.view(),
                          .keys = keys.view(),
                          .log_ids = {log_ids.data(), NumberType::i32, {steps, 2}},
                          .log_ns = ns});
  });
  for (int step = 0; step < steps; ++step) graph.launch();
  wait_for(gpu());
  std::int32_t result[2];
  copy_to_host(gpu(), inputs.view().data(), result, 8);
  EXPECT_EQ(result[0], 5);
  EXPECT_EQ(result[1], 6);
  copy_to_host(gpu(), at.view().data(), result, 8);
  EXPECT_EQ(result[0], 8);
  EXPECT_EQ(result[1], 9);
  for (int step = 0; step < steps; ++step) {
    EXPECT_EQ(reinterpret_cast<const std::int32_t*>(log_ids.data())[2 * step + 1], 9);
    EXPECT_GT(ns[step + 1], ns[step]);
  }
}

}  // namespace
}  // namespace moetune

#endif
