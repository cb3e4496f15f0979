// Attention over what a cache stores, and storing into it, on a GPU against the CPU: widths of which some
// have tensor-core kernels and some have not.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/mla_attention.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaStoredAttention : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaStoredAttention, OfHeads) {
  struct Case {
    int heads;
    int kv_heads;
    std::int64_t dim;
    int window;
  };
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16})
    for (const Case& c : {Case{3, 1, 12, 0}, Case{6, 3, 20, 5}, Case{8, 2, 64, 0}, Case{32, 4, 128, 0},
                          Case{40, 2, 128, 70}, Case{10, 2, 256, 100}})
      for (const std::int64_t context : {6, 700}) {
        const std::int64_t width = c.kv_heads * c.dim;
        const OwnedTensor keys = stored_as(type, random_floats({2, context, width}, 1).view());
        const OwnedTensor values = stored_as(type, random_floats({2, context, width}, 2).view());
        const OwnedTensor q = random_floats({4, c.heads, c.dim}, 3);
        const OwnedTensor sequences = ids({0, 1, 1, 0});
        const OwnedTensor positions =
            ids({0, static_cast<std::int32_t>(context - 1), 2, static_cast<std::int32_t>(context / 2)});
        const OwnedTensor y = poisoned({4, c.heads, c.dim});
        const Tensor gy = there(y.view());
        const auto op = [&](const Tensor& query, const Tensor& k, const Tensor& v, const Tensor& s,
                            const Tensor& p, const Tensor& to) {
          return Attention{.q = query,
                           .k_cache = k,
                           .v_cache = v,
                           .sequences = s,
                           .positions = p,
                           .y = to,
                           .kv_heads = c.kv_heads,
                           .scale = 0.3F,
                           .window = c.window};
        };
        run(gpu(), op(there(q.view()), there(keys.view()), there(values.view()), there(sequences.view()),
                      there(positions.view()), gy));
        run(cpu_, op(q.view(), keys.view(), values.view(), sequences.view(), positions.view(), y.view()));
        // Tensor cores take queries and weights as bf16.
        const bool is_rounded = type == NumberType::bf16 && (c.dim == 64 || c.dim == 128);
        expect_near(gy, y.view(), is_rounded ? 6e-3 : 2e-5,
                    std::string(name_of(type)) + " heads " + std::to_string(c.heads) + " context " +
                        std::to_string(context));
      }
}

TEST_F(CudaStoredAttention, OfLatentRows) {
  for (const auto& [heads, rank, rope] :
       {std::tuple<int, std::int64_t, std::int64_t>{3, 20, 6}, {6, 64, 16}, {5, 128, 64}, {16, 512, 64}}) {
    const std::int64_t context = 300;
    const std::int64_t width = rank + rope;
    const OwnedTensor cache = stored_as(NumberType::bf16, random_floats({2, context, width}, 1).view());
    const OwnedTensor fresh = random_floats({3, width}, 2);
    const OwnedTensor q_latent = random_floats({3, heads, rank}, 3);
    const OwnedTensor q_rope = random_floats({3, heads, rope}, 4);
    const OwnedTensor sequences = ids({1, 0, 1});
    const OwnedTensor positions = ids({299, 17, 3});
    const OwnedMatrix w = random_weights(NumberType::f32, heads * 7, rank, 5);
    const OwnedTensor y = poisoned({3, heads, rank});
    const OwnedTensor up = poisoned({3, heads, 7});
    const Tensor gy = there(y.view());
    const Tensor gup = there(up.view());
    const Tensor gcache = there(cache.view());
    const Tensor gs = there(sequences.view());
    const Tensor gp = there(positions.view());
    run(gpu(), StoreKv{.rows = there(fresh.view()), .sequences = gs, .positions = gp, .cache = gcache});
    run(cpu_, StoreKv{.rows = fresh.view(),
                      .sequences = sequences.view(),
                      .positions = positions.view(),
                      .cache = cache.view()});
    run(gpu(), MlaAttention{.q_latent = there(q_latent.view()),
                            .q_rope = there(q_rope.view()),
                            .cache = gcache,
                            .sequences = gs,
                            .positions = gp,
                            .y = gy,
                            .scale = 0.2F});
    run(cpu_, MlaAttention{.q_latent = q_latent.view(),
                           .q_rope = q_rope.view(),
                           .cache = cache.view(),
                           .sequences = sequences.view(),
                           .positions = positions.view(),
                           .y = y.view(),
                           .scale = 0.2F});
    const double tolerance = rank == 512 ? 6e-3 : 2e-5;  // tensor cores take queries and weights as bf16
    expect_near(gy, y.view(), tolerance, "rank " + std::to_string(rank));
    run(gpu(), PerHeadGemm{.x = gy, .w = there(w.w, Packing::rows), .y = gup});
    run(cpu_, PerHeadGemm{.x = y.view(), .w = w.w, .y = up.view()});
    expect_near(gup, up.view(), tolerance, "up " + std::to_string(rank));
  }
}

}  // namespace
}  // namespace moetune

#endif
