// Gemm against the plain loops, exactly where the numbers allow it, and bit for bit against itself under
// other cuts.
#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/reference.h"
#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

// Widths around the SIMD registers, the int4 block of 32 and the int4 group of 128.
constexpr std::int64_t kWidths[] = {1, 7, 15, 16, 17, 31, 32, 33, 64, 80, 127, 128, 129, 160, 257};

std::string describe(NumberType type, std::int64_t out, std::int64_t in, std::int64_t tokens) {
  return std::string(name_of(type)) + " " + std::to_string(out) + "x" + std::to_string(in) + ", " +
         std::to_string(tokens) + " tokens";
}

// Small integers that every type stores exactly, int4 too when each group holds a 7 (its scale is then 1).
float small_integer(std::int64_t row, std::int64_t column) {
  return column % 32 == 0 ? 7.0F : static_cast<float>((row * 5 + column * 3) % 15 - 7);
}
// The same for int8, whose scale is 1 when the row's largest is 127.
float byte_integer(std::int64_t row, std::int64_t column) {
  return column == 0 ? 127.0F : static_cast<float>((row * 11 + column * 7) % 255 - 127);
}

// Small integers add up exactly in float32, so a wrong element shows as a wrong integer, not as noise.
TEST(Gemm, IntegersAreExactInEveryTypeAndInstructionSet) {
  Device device = cpu();
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const NumberType type : kWeightTypes)
      for (const std::int64_t in : kWidths)
        for (const std::int64_t tokens : {1, 2, 3, 4, 5, 9}) {
          const std::int64_t out = 7;
          const OwnedMatrix w =
              weights(type, out, in, type == NumberType::int8 ? byte_integer : small_integer);
          const OwnedTensor x =
              filled({tokens, in}, [](std::int64_t i) { return static_cast<float>(i % 11 - 5); });
          const OwnedTensor y = poisoned({tokens, out});
          const OwnedTensor expected = poisoned({tokens, out});
          run(device, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
          reference::run(Gemm{.x = x.view(), .w = w.w, .y = expected.view()});
          expect_same_bits(y.view(), expected.view(),
                           name_of_instruction_set(set) + " " + describe(type, out, in, tokens));
        }
  }
}

TEST(Gemm, RandomNumbersComeCloseToTheReference) {
  Device device = cpu();
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const NumberType type : kWeightTypes)
      for (const std::int64_t in : {33, 192, 2048}) {
        const OwnedMatrix w = random_weights(type, 13, in, 1);
        const OwnedTensor x = random_floats({6, in}, 2);
        const OwnedTensor y = poisoned({6, 13});
        const OwnedTensor expected = poisoned({6, 13});
        run(device, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
        reference::run(Gemm{.x = x.view(), .w = w.w, .y = expected.view()});
        expect_close(y.view(), expected.view(), kSumTolerance * static_cast<double>(in),
                     describe(type, 13, in, 6));
      }
  }
}

TEST(Gemm, AddsBiasAndAccumulates) {
  Device device = cpu();
  const OwnedMatrix w = weights(NumberType::bf16, 5, 40, small_integer);
  const OwnedTensor x = filled({3, 40}, [](std::int64_t i) { return static_cast<float>(i % 7 - 3); });
  const OwnedTensor bias = filled({5}, [](std::int64_t i) { return static_cast<float>(100 * i); });
  const OwnedTensor y = filled({3, 5}, [](std::int64_t i) { return static_cast<float>(1000 * i); });
  const OwnedTensor expected = filled({3, 5}, [](std::int64_t i) { return static_cast<float>(1000 * i); });
  const auto op = [&](const OwnedTensor& into) {
    return Gemm{.x = x.view(), .w = w.w, .y = into.view(), .bias = bias.view(), .accumulate = true};
  };
  run(device, op(y));
  reference::run(op(expected));
  expect_same_bits(y.view(), expected.view(), "bias and accumulate");
}

TEST(Gemm, StridedRowsLeaveTheirNeighboursAlone) {
  Device device = cpu();
  const OwnedMatrix w = weights(NumberType::int4, 6, 40, small_integer);
  const OwnedTensor wide_x = filled({5, 100}, [](std::int64_t i) { return static_cast<float>(i % 9 - 4); });
  const OwnedTensor wide_y = poisoned({5, 20});
  const Tensor x = wide_x.view().columns(33, 40);
  run(device, Gemm{.x = x, .w = w.w, .y = wide_y.view().columns(3, 6)});
  const OwnedTensor expected = poisoned({5, 20});
  reference::run(Gemm{.x = x, .w = w.w, .y = expected.view().columns(3, 6)});
  expect_same_bits(wide_y.view(), expected.view(), "strided");
}

// What gemm.h promises: a step decoded alone equals the same step inside a batch, whatever the threads.
void expect_same_bits_for_any_cut(NumberType type, std::int64_t out, std::int64_t in) {
  const OwnedMatrix w = random_weights(type, out, in, 3);
  const OwnedTensor x = random_floats({33, in}, 4);
  const OwnedTensor all_at_once = poisoned({33, out});
  Device one_thread = cpu(1);
  run(one_thread, Gemm{.x = x.view(), .w = w.w, .y = all_at_once.view()});
  for (const int threads : {1, 2})
    for (const std::int64_t batch : {1, 2, 3, 7, 33}) {
      Device device = cpu(threads);
      const OwnedTensor y = poisoned({33, out});
      for (std::int64_t first = 0; first < 33; first += batch) {
        const std::int64_t count = std::min<std::int64_t>(batch, 33 - first);
        run(device, Gemm{.x = x.view().rows(first, count), .w = w.w, .y = y.view().rows(first, count)});
      }
      expect_same_bits(
          y.view(), all_at_once.view(),
          describe(type, out, in, batch) + " at a time, " + std::to_string(threads) + " threads");
    }
}

TEST(Gemm, SameBitsForAnyNumberOfTokensAndThreads) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const NumberType type : kWeightTypes)
      for (const std::int64_t in : {45, 200}) expect_same_bits_for_any_cut(type, 23, in);
  }
}

// Wide enough that 33 tokens take more than one panel of decoded rows, and several threads share one token.
TEST(Gemm, SameBitsForMatricesOfSeveralPanels) {
  for (const NumberType type : {NumberType::bf16, NumberType::int4})
    expect_same_bits_for_any_cut(type, 70, 2048);
}

TEST(Gemm, NoTokensAndNoRowsAreNoWork) {
  Device device = cpu();
  const OwnedMatrix w = weights(NumberType::int8, 3, 8, byte_integer);
  const OwnedTensor x = filled({1, 8}, [](std::int64_t) { return 1.0F; });
  const OwnedTensor y = poisoned({1, 3});
  run(device, Gemm{.x = x.view().rows(0, 0), .w = w.w, .y = y.view().rows(0, 0)});
  const OwnedMatrix no_rows = weights(NumberType::int8, 0, 8, byte_integer);
  run(device, Gemm{.x = x.view(), .w = no_rows.w, .y = y.view().columns(0, 0)});
  expect_same_bits(y.view(), poisoned({1, 3}).view(), "untouched");
}

TEST(Gemm, RefusesTypesThatNoMatrixHas) {
  EXPECT_THROW(MatrixLayout::of(NumberType::i32, 2, 2), std::invalid_argument);
  Device device = cpu();
  OwnedMatrix w = weights(NumberType::f32, 2, 2, small_integer);
  w.w.layout.type = NumberType::i32;
  const OwnedTensor x = poisoned({1, 2});
  EXPECT_THROW(run(device, Gemm{.x = x.view(), .w = w.w, .y = x.view()}), std::invalid_argument);
}

}  // namespace
}  // namespace moetune
