// Attention over a KV cache: against the plain loops, exactly where the numbers allow it, and decode against
// prefill.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/number_convert.h"
#include "kernels/reference.h"
#include "kernels/run.h"
#include "tests/support/random_cache.h"
#include "tests/support/relative_error.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

struct Shape {
  int heads;
  int kv_heads;
  std::int64_t head_dim;
  std::int64_t context;
  int window;
};

// Heads per kv head from 1 to more than one piece; widths with and without a rest; windows shorter than the
// context.
constexpr Shape kShapes[] = {{1, 1, 8, 5, 0},    {4, 2, 16, 40, 0},  {6, 2, 33, 70, 0},   {5, 1, 64, 33, 7},
                             {20, 1, 24, 50, 0}, {14, 2, 128, 9, 1}, {3, 3, 17, 100, 64}, {36, 2, 7, 3, 0}};

// Three tokens of two sequences at different positions.
struct Step {
  OwnedTensor sequences = ids({1, 0, 1});
  OwnedTensor positions;
  explicit Step(std::int64_t context)
      : positions(ids({0, static_cast<std::int32_t>(context - 1), static_cast<std::int32_t>(context / 2)})) {}
};

TEST(Attention, ComesCloseToTheReferenceForEveryCacheTypeAndShape) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const int threads : {1, 2})
      for (const NumberType type : kCacheTypes)
        for (const Shape& shape : kShapes) {
          Device device = cpu(threads);
          const Step step(shape.context);
          const OwnedTensor q = random_floats({3, shape.heads, shape.head_dim}, 1);
          const RandomCache k = RandomCache::of(type, 2, shape.context, shape.kv_heads, shape.head_dim, 2);
          const RandomCache v = RandomCache::of(type, 2, shape.context, shape.kv_heads, shape.head_dim, 3);
          const OwnedTensor y = poisoned({3, shape.heads, shape.head_dim});
          const OwnedTensor expected = poisoned({3, shape.heads, shape.head_dim});
          Attention op{.q = q.view(),
                       .k_cache = k.rows.view(),
                       .v_cache = v.rows.view(),
                       .k_scales = k.scales.view(),
                       .v_scales = v.scales.view(),
                       .sequences = step.sequences.view(),
                       .positions = step.positions.view(),
                       .y = y.view(),
                       .kv_heads = shape.kv_heads,
                       .scale = 0.7F,
                       .window = shape.window};
          run(device, op);
          op.y = expected.view();
          reference::run(op);
          expect_close(y.view(), expected.view(), 2e-6,
                       name_of_instruction_set(set) + " " + std::string(name_of(type)) + " " +
                           std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim));
        }
  }
}

// What a type of few bits keeps of a number: something is lost, and no more than its steps are wide.
TEST(StoreKv, KeepsWhatTheTypeCan) {
  const OwnedTensor random = random_floats({2 * 30, 4 * 24}, 7);
  for (const auto& [type, most] : {std::pair{NumberType::f32, 0.0},
                                   {NumberType::f16, 4e-4},
                                   {NumberType::bf16, 3e-3},
                                   {NumberType::int8, 8e-3},
                                   {NumberType::fp8, 4e-2}}) {
    const std::vector<float> kept = RandomCache::of(type, 2, 30, 4, 24, 7).values();
    const double error = relative_error(kept, values_of(random.view()));
    EXPECT_LE(error, most) << name_of(type);
    if (type != NumberType::f32) {
      EXPECT_GT(error, most / 10.0) << name_of(type);
    }
  }
}

// Scores so far apart that one position takes all the weight: the answer is that position's value row,
// exactly.
TEST(Attention, PicksTheOneMatchingPosition) {
  Device device = cpu();
  const OwnedTensor q = filled(
      {1, 2, 4}, [](std::int64_t i) { return i % 4 == i / 4 ? 1000.0F : 0.0F; });  // heads ask for axis 0, 1
  const OwnedTensor k = filled({1, 6, 4}, [](std::int64_t i) {
    return (i / 4 == 3 && i % 4 == 0) || (i / 4 == 1 && i % 4 == 1) ? 1.0F : 0.0F;
  });
  const OwnedTensor v = filled({1, 6, 4}, [](std::int64_t i) { return static_cast<float>(i); });
  const OwnedTensor y = poisoned({1, 2, 4});
  run(device, Attention{.q = q.view(),
                        .k_cache = k.view(),
                        .v_cache = v.view(),
                        .sequences = ids({0}).view(),
                        .positions = ids({5}).view(),
                        .y = y.view()});
  expect_same_bits(
      y.view(),
      filled({1, 2, 4}, [](std::int64_t i) { return static_cast<float>(i < 4 ? 12 + i : i); }).view(),
      "rows 3 and 1");
}

// What lies behind a token's own position may be anything, even NaN: rows of the cache that were never
// written.
TEST(Attention, NeverReadsBeyondItsPosition) {
  Device device = cpu();
  const OwnedTensor q = random_floats({1, 2, 16}, 1);
  const OwnedTensor cache = poisoned({1, 64, 16});
  for (std::int64_t i = 0; i < 3 * 16; ++i) cache.view().f32()[i] = 1.0F;
  const OwnedTensor y = poisoned({1, 2, 16});
  run(device, Attention{.q = q.view(),
                        .k_cache = cache.view(),
                        .v_cache = cache.view(),
                        .sequences = ids({0}).view(),
                        .positions = ids({2}).view(),
                        .y = y.view()});
  expect_close(y.view(), filled({1, 2, 16}, [](std::int64_t) { return 1.0F; }).view(), 1e-6, "mean of ones");
}

TEST(Attention, OneTokenAtATimeGivesTheBitsOfAllAtOnce) {
  const std::int64_t context = 67;
  const OwnedTensor q = random_floats({context, 6, 40}, 1);
  const OwnedTensor k = random_floats({1, context, 80}, 2);
  const OwnedTensor v = random_floats({1, context, 80}, 3);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(context));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  const OwnedTensor all_positions = ids(positions);
  const OwnedTensor sequences = ids(std::vector<std::int32_t>(positions.size(), 0));
  const OwnedTensor all_at_once = poisoned({context, 6, 40});
  const auto op = [&](std::int64_t first, std::int64_t count, const OwnedTensor& y) {
    return Attention{.q = q.view().rows(first, count),
                     .k_cache = k.view(),
                     .v_cache = v.view(),
                     .sequences = sequences.view().rows(first, count),
                     .positions = all_positions.view().rows(first, count),
                     .y = y.view().rows(first, count),
                     .kv_heads = 2,
                     .scale = 0.3F};
  };
  Device two_threads = cpu(2);
  run(two_threads, op(0, context, all_at_once));
  Device device = cpu();
  const OwnedTensor y = poisoned({context, 6, 40});
  for (std::int64_t token = 0; token < context; ++token) run(device, op(token, 1, y));
  expect_same_bits(y.view(), all_at_once.view(), "decode against prefill");
}

TEST(StoreKv, WritesItsRowsAndNothingElse) {
  Device device = cpu();
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedTensor rows = filled({2, 3}, [](std::int64_t i) { return static_cast<float>(i) + 0.25F; });
    const OwnedTensor cache = stored_as(type, filled({2, 4, 3}, [](std::int64_t) { return -1.0F; }).view());
    run(device, StoreKv{.rows = rows.view(),
                        .sequences = ids({1, 0}).view(),
                        .positions = ids({2, 3}).view(),
                        .cache = cache.view()});
    const OwnedTensor expected = stored_as(type, filled({2, 4, 3}, [](std::int64_t i) {
                                                   if (i >= 18 && i < 21)
                                                     return static_cast<float>(i - 18) + 0.25F;
                                                   if (i >= 9 && i < 12)
                                                     return static_cast<float>(i - 9 + 3) + 0.25F;
                                                   return -1.0F;
                                                 }).view());
    EXPECT_EQ(
        std::memcmp(cache.view().data(), expected.view().data(), static_cast<std::size_t>(cache.bytes())), 0)
        << name_of(type);
  }
}

TEST(StoreKv, RefusesBytesWithoutScalesAndOtherTypes) {
  Device device = cpu();
  const OwnedTensor rows = random_floats({1, 4}, 1);
  const OwnedTensor cache = random_floats({1, 1, 4}, 2);
  const OwnedTensor zero = ids({0});
  for (const NumberType type : {NumberType::int8, NumberType::i32})
    EXPECT_THROW(run(device, StoreKv{.rows = rows.view(),
                                     .sequences = zero.view(),
                                     .positions = zero.view(),
                                     .cache = Tensor(cache.view().data(), type, {1, 1, 4})}),
                 std::invalid_argument)
        << name_of(type);
}

}  // namespace
}  // namespace moetune
