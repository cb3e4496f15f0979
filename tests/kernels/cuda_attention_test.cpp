// Attention on a GPU against the CPU: every type of a cache, contexts on both sides of every cut (turns of a
// warp, pieces, clusters), heads placed by the attention itself or before it, and the absorbed projections of
// MLA.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kernel_path.h"
#include "kernels/mla_attention.h"
#include "kernels/placed_attention.h"
#include "kernels/rope.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/random_cache.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaAttention : public GpuTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    set_kernel_path({.is_portable = GetParam()});
  }
  void TearDown() override { set_kernel_path({}); }

  Device cpu_ = cpu(8);

  Tensor there_or_empty(const Tensor& tensor) { return tensor.empty() ? Tensor() : there(tensor); }

  void expect_same_cache(const Tensor& rows, const Tensor& scales, const RandomCache& expected,
                         double tolerance, const std::string& what) {
    const RandomCache result = RandomCache::like(rows, scales);
    back(rows, result.rows.view());
    if (!scales.empty()) back(scales, result.scales.view());
    EXPECT_LE(relative_error(result.values(), expected.values()), tolerance) << what;
  }
};
INSTANTIATE_TEST_SUITE_P(Paths, CudaAttention, ::testing::Values(false, true),
                         [](const auto& path) { return path.param ? "portable" : "own"; });

struct Grouped {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t width;
  std::int64_t context;
  int window;
  bool has_norm;
};

// Of fp8 a rounding that falls the other way is 1/16 of a number.
double tolerance_of(NumberType type) { return type == NumberType::fp8 ? 1e-2 : 6e-3; }

OwnedTensor radians_of(std::int64_t width) {
  const RopeFrequencies rope = rope_frequencies(10000.0, static_cast<int>(width));
  return filled({width / 2},
                [&](std::int64_t i) { return rope.radians_per_position[static_cast<std::size_t>(i)]; });
}

TEST_P(CudaAttention, GroupedHeadsArePlacedAndAttend) {
  for (const NumberType type : kCacheTypes)
    for (const Grouped& c : {Grouped{6, 2, 20, 40, 0, true}, Grouped{32, 4, 128, 40, 0, true},
                             Grouped{32, 4, 128, 600, 0, false}, Grouped{32, 4, 128, 2500, 0, true},
                             Grouped{16, 4, 128, 600, 77, true}, Grouped{20, 1, 64, 600, 0, true},
                             Grouped{8, 8, 64, 1025, 0, false}, Grouped{12, 2, 128, 1000, 0, true},
                             Grouped{8, 2, 256, 600, 0, true}})
      for (const bool is_one_each : {true, false}) {
        const RandomCache keys = RandomCache::of(type, 3, c.context, c.kv_heads, c.width, 1);
        const RandomCache values = RandomCache::of(type, 3, c.context, c.kv_heads, c.width, 2);
        const OwnedTensor q = random_floats({3, c.heads, c.width}, 3);
        const OwnedTensor k = random_floats({3, c.kv_heads, c.width}, 4);
        const OwnedTensor v = random_floats({3, c.kv_heads, c.width}, 5);
        const OwnedTensor norm = random_floats({c.width}, 6);
        const OwnedTensor radians = radians_of(c.width);
        const OwnedTensor sequences = ids({2, 0, 1});
        const auto last = static_cast<std::int32_t>(c.context - 1);
        const OwnedTensor positions = ids({last, 0, std::min(last, 64)});
        const OwnedTensor y = poisoned({3, c.heads, c.width});
        const auto op = [&](const Tensor& tq, const Tensor& tk, const Tensor& tv, const Tensor& n,
                            const Tensor& kc, const Tensor& vc, const Tensor& ks, const Tensor& vs,
                            const Tensor& s, const Tensor& p, const Tensor& f, const Tensor& to) {
          return PlacedAttention{
              .place = {.rows = {{{.x = tq, .norm = n, .rotated = 0},
                                  {.x = tk, .norm = n, .rotated = 0, .cache = kc, .scales = ks},
                                  {.x = tv, .cache = vc, .scales = vs}}},
                        .sequences = s,
                        .positions = p,
                        .frequencies = f,
                        .scale = 1.25F},
              .attention = {.q = tq,
                            .k_cache = kc,
                            .v_cache = vc,
                            .k_scales = ks,
                            .v_scales = vs,
                            .sequences = s,
                            .positions = p,
                            .y = to,
                            .kv_heads = static_cast<int>(c.kv_heads),
                            .scale = 0.1F,
                            .window = c.window},
              .is_one_each = is_one_each};
        };
        const Tensor gk = there(keys.rows.view());
        const Tensor gv = there(values.rows.view());
        const Tensor gks = there_or_empty(keys.scales.view());
        const Tensor gvs = there_or_empty(values.scales.view());
        const Tensor gy = there(y.view());
        const Tensor no_norm;
        run(gpu(), op(there(q.view()), there(k.view()), there(v.view()),
                      c.has_norm ? there(norm.view()) : no_norm, gk, gv, gks, gvs, there(sequences.view()),
                      there(positions.view()), there(radians.view()), gy));
        run(cpu_, op(q.view(), k.view(), v.view(), c.has_norm ? norm.view() : no_norm, keys.rows.view(),
                     values.rows.view(), keys.scales.view(), values.scales.view(), sequences.view(),
                     positions.view(), radians.view(), y.view()));
        const std::string what = std::string(name_of(type)) + ", width " + std::to_string(c.width) +
                                 ", context " + std::to_string(c.context) + (is_one_each ? ", placed" : "");
        expect_near(gy, y.view(), tolerance_of(type), what);
        expect_same_cache(gk, gks, keys, tolerance_of(type), what + ", keys");
        expect_same_cache(gv, gvs, values, tolerance_of(type), what + ", values");
      }
}

TEST_P(CudaAttention, LatentRowsArePlacedAndAttend) {
  struct Case {
    std::int64_t heads;
    std::int64_t rank;
    std::int64_t rope;
    std::int64_t context;
  };
  for (const NumberType type : kCacheTypes)
    for (const Case& c :
         {Case{3, 20, 6, 40}, Case{16, 512, 64, 40}, Case{16, 512, 64, 1500}, Case{16, 512, 64, 700},
          Case{5, 512, 64, 200}, Case{128, 512, 64, 120}, Case{70, 512, 64, 300}, Case{128, 512, 64, 700},
          Case{128, 512, 64, 2000}, Case{128, 512, 64, 3000}, Case{16, 512, 64, 20000}})
      for (const bool is_interleaved : {false, true})
        for (const bool is_one_each : {true, false}) {
          if (c.context >= 3000 && (is_interleaved || !is_one_each)) continue;
          if (c.heads == 128 && is_interleaved) continue;
          const std::int64_t width = c.rank + c.rope;
          const RandomCache rows = RandomCache::of(type, 3, c.context, 1, width, 1);
          const OwnedTensor q = random_floats({3, c.heads, 10 + c.rope}, 2);
          const OwnedTensor q_latent = random_floats({3, c.heads, c.rank}, 3);
          const OwnedTensor fresh = random_floats({3, 1, width}, 4);
          const OwnedTensor norm = random_floats({c.rank}, 5);
          const OwnedTensor radians = radians_of(c.rope);
          const OwnedTensor sequences = ids({2, 0, 1});
          const auto last = static_cast<std::int32_t>(c.context - 1);
          const OwnedTensor positions = ids({last, 0, std::min(last, 64)});
          const OwnedTensor y = poisoned({3, c.heads, c.rank});
          const auto op = [&](const Tensor& tq, const Tensor& latent, const Tensor& row, const Tensor& n,
                              const Tensor& kept, const Tensor& scales, const Tensor& s, const Tensor& p,
                              const Tensor& f, const Tensor& to) {
            return PlacedMlaAttention{.place = {.rows = {{{.x = tq, .rotated = 10},
                                                          {.x = row,
                                                           .norm = n,
                                                           .rotated = static_cast<int>(c.rank),
                                                           .cache = kept,
                                                           .scales = scales},
                                                          {}}},
                                                .sequences = s,
                                                .positions = p,
                                                .frequencies = f,
                                                .scale = 1.25F,
                                                .interleaved = is_interleaved},
                                      .attention = {.q_latent = latent,
                                                    .q_rope = tq.columns(10, c.rope),
                                                    .cache = kept,
                                                    .scales = scales,
                                                    .sequences = s,
                                                    .positions = p,
                                                    .y = to,
                                                    .scale = 0.05F},
                                      .is_one_each = is_one_each};
          };
          const Tensor gr = there(rows.rows.view());
          const Tensor gs = there_or_empty(rows.scales.view());
          const Tensor gy = there(y.view());
          run(gpu(), op(there(q.view()), there(q_latent.view()), there(fresh.view()), there(norm.view()), gr,
                        gs, there(sequences.view()), there(positions.view()), there(radians.view()), gy));
          run(cpu_, op(q.view(), q_latent.view(), fresh.view(), norm.view(), rows.rows.view(),
                       rows.scales.view(), sequences.view(), positions.view(), radians.view(), y.view()));
          const std::string what = std::string(name_of(type)) + ", heads " + std::to_string(c.heads) +
                                   ", rank " + std::to_string(c.rank) + ", context " +
                                   std::to_string(c.context) + (is_one_each ? ", placed" : "");
          expect_near(gy, y.view(), tolerance_of(type), what);
          expect_same_cache(gr, gs, rows, tolerance_of(type), what + ", rows");
        }
}

// Launches of more blocks than a GPU holds at once: no pieces, no clusters.
TEST_P(CudaAttention, MoreTokensThanBlocks) {
  const std::int64_t tokens = 400;
  const std::int64_t context = 200;
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> at;
  for (std::int64_t i = 0; i < tokens; ++i) {
    slots.push_back(static_cast<std::int32_t>(i / context));
    at.push_back(static_cast<std::int32_t>(i % context));
  }
  const OwnedTensor sequences = ids(slots);
  const OwnedTensor positions = ids(at);
  const Tensor gs = there(sequences.view());
  const Tensor gp = there(positions.view());
  const RandomCache keys = RandomCache::of(NumberType::bf16, 2, context, 4, 64, 1);
  const RandomCache values = RandomCache::of(NumberType::bf16, 2, context, 4, 64, 2);
  const OwnedTensor q = random_floats({tokens, 8, 64}, 3);
  const OwnedTensor y = poisoned({tokens, 8, 64});
  const Tensor gy = there(y.view());
  const auto grouped = [&](const Tensor& tq, const Tensor& k, const Tensor& v, const Tensor& s,
                           const Tensor& p, const Tensor& to) {
    return Attention{.q = tq,
                     .k_cache = k,
                     .v_cache = v,
                     .sequences = s,
                     .positions = p,
                     .y = to,
                     .kv_heads = 4,
                     .scale = 0.3F};
  };
  run(gpu(), grouped(there(q.view()), there(keys.rows.view()), there(values.rows.view()), gs, gp, gy));
  run(cpu_,
      grouped(q.view(), keys.rows.view(), values.rows.view(), sequences.view(), positions.view(), y.view()));
  expect_near(gy, y.view(), 6e-3, "grouped");

  const RandomCache rows = RandomCache::of(NumberType::bf16, 2, context, 1, 576, 4);
  const OwnedTensor latent = random_floats({tokens, 3, 512}, 5);
  const OwnedTensor rope = random_floats({tokens, 3, 64}, 6);
  const OwnedTensor z = poisoned({tokens, 3, 512});
  const Tensor gz = there(z.view());
  const auto mla = [&](const Tensor& tl, const Tensor& tr, const Tensor& c, const Tensor& s, const Tensor& p,
                       const Tensor& to) {
    return MlaAttention{
        .q_latent = tl, .q_rope = tr, .cache = c, .sequences = s, .positions = p, .y = to, .scale = 0.05F};
  };
  run(gpu(), mla(there(latent.view()), there(rope.view()), there(rows.rows.view()), gs, gp, gz));
  run(cpu_, mla(latent.view(), rope.view(), rows.rows.view(), sequences.view(), positions.view(), z.view()));
  expect_near(gz, z.view(), 6e-3, "latent");
}

TEST_P(CudaAttention, EachHeadHasItsOwnMatrix) {
  struct Case {
    std::int64_t heads;
    std::int64_t out;
    std::int64_t in;
  };
  for (const NumberType type : {NumberType::bf16, NumberType::f16})
    for (const Case& c : {Case{3, 16, 20}, Case{16, 512, 128}, Case{16, 128, 512}, Case{5, 48, 200}})
      for (const std::int64_t tokens : {1, 3, 4, 5, 8, 21, 70, 150}) {
        const OwnedMatrix w = random_weights(type, c.heads * c.out, c.in, 1);
        const OwnedTensor x = random_floats({tokens, c.heads, c.in + 4}, 2);
        const OwnedTensor y = poisoned({tokens, c.heads, c.out});
        const Tensor gy = there(y.view());
        run(gpu(),
            PerHeadGemm{.x = there(x.view()).columns(4, c.in), .w = there(w.w, Packing::tiles), .y = gy});
        run(cpu_, PerHeadGemm{.x = x.view().columns(4, c.in), .w = w.w, .y = y.view()});
        expect_near(gy, y.view(), type == NumberType::bf16 && tokens <= 128 ? 2e-4 : 6e-3,
                    std::string(name_of(type)) + " " + std::to_string(c.out) + " x " + std::to_string(c.in) +
                        ", tokens " + std::to_string(tokens));
      }
}

}  // namespace
}  // namespace moetune

#endif
