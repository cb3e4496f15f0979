// The ops that work row by row: RmsNorm, SwiGlu, Add.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/reference.h"
#include "kernels/rms_norm.h"
#include "kernels/run.h"
#include "kernels/swiglu.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

constexpr std::int64_t kWidths[] = {1, 3, 8, 15, 16, 17, 63, 64, 65, 192, 1000};

TEST(RmsNorm, ComesCloseToTheReference) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const std::int64_t width : kWidths) {
      Device device = cpu(2);
      const OwnedTensor wide_x = random_floats({3, width + 5}, 1);
      const OwnedTensor weight = random_floats({width}, 2);
      const OwnedTensor y = poisoned({3, width + 2});
      const OwnedTensor expected = poisoned({3, width + 2});
      RmsNorm op{.x = wide_x.view().columns(4, width),
                 .weight = weight.view(),
                 .y = y.view().columns(1, width),
                 .eps = 1e-5F};
      run(device, op);
      op.y = expected.view().columns(1, width);
      reference::run(op);
      expect_close(y.view(), expected.view(), 1e-6,
                   name_of_instruction_set(set) + " width " + std::to_string(width));
    }
  }
}

TEST(RmsNorm, KnownRowInPlace) {
  Device device = cpu();
  const OwnedTensor x =
      filled({1, 4}, [](std::int64_t i) { return i < 2 ? 6.0F : -8.0F; });  // mean square 50
  const OwnedTensor weight = filled({4}, [](std::int64_t i) { return static_cast<float>(i); });
  run(device,
      RmsNorm{.x = x.view(), .weight = weight.view(), .y = x.view(), .eps = 14.0F});  // sqrt(50 + 14) = 8
  expect_same_bits(
      x.view(),
      filled({1, 4}, [](std::int64_t i) { return (i < 2 ? 0.75F : -1.0F) * static_cast<float>(i); }).view(),
      "in place");
}

TEST(SwiGlu, ComesCloseToTheReferenceFromTinyToHuge) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const std::int64_t width : kWidths) {
      Device device = cpu(2);
      const OwnedTensor gate = filled({2, width}, [](std::int64_t i) {
        return std::ldexp(std::sin(static_cast<float>(i + 1)), static_cast<int>(i % 16) - 6);
      });
      const OwnedTensor up = random_floats({2, width}, 1);
      const OwnedTensor y = poisoned({2, width});
      const OwnedTensor expected = poisoned({2, width});
      SwiGlu op{.gate = gate.view(), .up = up.view(), .y = y.view()};
      run(device, op);
      op.y = expected.view();
      reference::run(op);
      expect_close(y.view(), expected.view(), 1e-6,
                   name_of_instruction_set(set) + " width " + std::to_string(width));
    }
  }
}

TEST(SwiGlu, EndsOfTheRange) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    Device device = cpu();
    const float largest = std::numeric_limits<float>::max();
    const std::vector<float> gates{0.0F,     -200.0F, 200.0F,
                                   -largest, largest, std::numeric_limits<float>::quiet_NaN()};
    const std::vector<float> expected{0.0F, 0.0F,    200.0F,
                                      0.0F, largest, std::numeric_limits<float>::quiet_NaN()};
    for (const std::int64_t width : {6, 40}) {
      const OwnedTensor gate =
          filled({1, width}, [&](std::int64_t i) { return gates[static_cast<std::size_t>(i % 6)]; });
      const OwnedTensor up = filled({1, width}, [](std::int64_t) { return 1.0F; });
      run(device, SwiGlu{.gate = gate.view(), .up = up.view(), .y = gate.view()});  // in place
      const OwnedTensor wanted =
          filled({1, width}, [&](std::int64_t i) { return expected[static_cast<std::size_t>(i % 6)]; });
      expect_close(gate.view(), wanted.view(), 1e-30, name_of_instruction_set(set));
    }
  }
}

TEST(Add, AddsStridedRows) {
  Device device = cpu(2);
  const OwnedTensor x = filled({3, 7}, [](std::int64_t i) { return static_cast<float>(i); });
  const OwnedTensor y = filled({3, 5}, [](std::int64_t i) { return static_cast<float>(100 * i); });
  run(device, Add{.x = x.view().columns(2, 4), .y = y.view().columns(1, 4)});
  const OwnedTensor expected = filled({3, 5}, [](std::int64_t i) {
    const std::int64_t column = i % 5;
    return static_cast<float>(100 * i + (column >= 1 ? i / 5 * 7 + 2 + column - 1 : 0));
  });
  expect_same_bits(y.view(), expected.view(), "add");
}

}  // namespace
}  // namespace moetune
