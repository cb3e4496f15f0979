// MlaAttention and PerHeadGemm against the plain loops; decode against prefill.
#include "kernels/mla_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference.h"
#include "kernels/run.h"
#include "tests/support/random_cache.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

struct Shape {
  std::int64_t heads;
  std::int64_t rank;
  std::int64_t rope_dim;
  std::int64_t context;
};
constexpr Shape kShapes[] = {{1, 8, 2, 3}, {4, 32, 8, 40}, {6, 33, 6, 50}, {20, 64, 16, 33}, {37, 17, 2, 9}};

TEST(MlaAttention, ComesCloseToTheReferenceForEveryCacheTypeAndShape) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const int threads : {1, 2})
      for (const NumberType type : kCacheTypes)
        for (const auto& [heads, rank, rope_dim, context] : kShapes) {
          Device device = cpu(threads);
          // q_rope is a slice of wider rows, as the query projection leaves it.
          const OwnedTensor latent = random_floats({2, heads, rank}, 1);
          const OwnedTensor wide_rope = random_floats({2, heads, rope_dim + 5}, 2);
          const RandomCache cache = RandomCache::of(type, 2, context, 1, rank + rope_dim, 3);
          const OwnedTensor y = poisoned({2, heads, rank});
          const OwnedTensor expected = poisoned({2, heads, rank});
          const OwnedTensor sequences = ids({1, 0});
          const OwnedTensor positions = ids({static_cast<std::int32_t>(context - 1), 0});
          MlaAttention op{.q_latent = latent.view(),
                          .q_rope = wide_rope.view().columns(5, rope_dim),
                          .cache = cache.rows.view(),
                          .scales = cache.scales.view(),
                          .sequences = sequences.view(),
                          .positions = positions.view(),
                          .y = y.view(),
                          .scale = 0.6F};
          run(device, op);
          op.y = expected.view();
          reference::run(op);
          expect_close(y.view(), expected.view(), 2e-6,
                       name_of_instruction_set(set) + " " + std::string(name_of(type)) + " " +
                           std::to_string(heads) + " heads, rank " + std::to_string(rank));
        }
  }
}

TEST(MlaAttention, OneTokenAtATimeGivesTheBitsOfAllAtOnce) {
  const std::int64_t context = 45;
  const OwnedTensor latent = random_floats({context, 18, 40}, 1);
  const OwnedTensor rope = random_floats({context, 18, 6}, 2);
  const OwnedTensor cache = random_floats({1, context, 46}, 3);
  std::vector<std::int32_t> in_order(static_cast<std::size_t>(context));
  for (std::size_t i = 0; i < in_order.size(); ++i) in_order[i] = static_cast<std::int32_t>(i);
  const OwnedTensor positions = ids(in_order);
  const OwnedTensor sequences = ids(std::vector<std::int32_t>(in_order.size(), 0));
  const auto op = [&](std::int64_t first, std::int64_t count, const OwnedTensor& y) {
    return MlaAttention{.q_latent = latent.view().rows(first, count),
                        .q_rope = rope.view().rows(first, count),
                        .cache = cache.view(),
                        .sequences = sequences.view().rows(first, count),
                        .positions = positions.view().rows(first, count),
                        .y = y.view().rows(first, count),
                        .scale = 0.4F};
  };
  const OwnedTensor all_at_once = poisoned({context, 18, 40});
  const OwnedTensor y = poisoned({context, 18, 40});
  Device two_threads = cpu(2);
  Device one_thread = cpu();
  run(two_threads, op(0, context, all_at_once));
  for (std::int64_t token = 0; token < context; ++token) run(one_thread, op(token, 1, y));
  expect_same_bits(y.view(), all_at_once.view(), "decode against prefill");
}

TEST(PerHeadGemm, MultipliesEachHeadByItsOwnMatrix) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const std::int64_t tokens : {1, 3, 9})
      for (const std::int64_t in : {1, 8, 33}) {
        Device device = cpu(2);
        const std::int64_t heads = 5;
        const std::int64_t out = 11;
        const OwnedTensor wide_x =
            filled({tokens, heads, in + 3}, [](std::int64_t i) { return static_cast<float>(i % 13 - 6); });
        const OwnedMatrix w =
            weights(NumberType::bf16, heads * out, in, [in](std::int64_t row, std::int64_t column) {
              return static_cast<float>((row * in + column) % 7 - 3);
            });
        const OwnedTensor y = poisoned({tokens, heads, out + 2});
        const OwnedTensor expected = poisoned({tokens, heads, out + 2});
        PerHeadGemm op{.x = wide_x.view().columns(2, in), .w = w.w, .y = y.view().columns(1, out)};
        run(device, op);
        op.y = expected.view().columns(1, out);
        reference::run(op);
        expect_same_bits(y.view(), expected.view(), "integers");
      }
  }
}

}  // namespace
}  // namespace moetune
