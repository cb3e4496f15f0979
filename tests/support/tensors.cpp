#include "tests/support/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/number_convert.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
// Before Highway's headers: it decides which instruction sets exist.
#include "kernels/simd/targets.h"

#include "hwy/targets.h"

namespace moetune::testing {
namespace {

// Calls visit(offset) for every element in order.
template <class Visit>
void for_each_offset(const Tensor& tensor, const Visit& visit) {
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};
  std::array<std::int64_t, 4> stride{};
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const auto place = static_cast<std::size_t>(4 - tensor.rank() + axis);
    shape[place] = tensor.dim(axis);
    stride[place] = tensor.stride(axis);
  }
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (std::int64_t c = 0; c < shape[2]; ++c)
        for (std::int64_t d = 0; d < shape[3]; ++d)
          visit(a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]);
}

bool near_enough(float actual, float expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  const double limit = tolerance * std::max(1.0, std::fabs(static_cast<double>(expected)));
  return std::fabs(static_cast<double>(actual) - static_cast<double>(expected)) <= limit;
}

}  // namespace

Device cpu(int threads) { return Cpu(threads); }

void poison(const Tensor& tensor) {
  for_each_offset(tensor,
                  [&](std::int64_t at) { tensor.f32()[at] = std::numeric_limits<float>::quiet_NaN(); });
}

OwnedTensor poisoned(std::initializer_list<std::int64_t> shape) {
  return filled(shape, [](std::int64_t) { return std::numeric_limits<float>::quiet_NaN(); });
}

OwnedTensor filled(std::initializer_list<std::int64_t> shape,
                   const std::function<float(std::int64_t)>& rule) {
  Device device = cpu();
  OwnedTensor tensor(device, NumberType::f32, shape);
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i) tensor.view().f32()[i] = rule(i);
  return tensor;
}

OwnedTensor random_floats(std::initializer_list<std::int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  return filled(shape, [&](std::int64_t) { return uniform(random); });
}

OwnedTensor ids(std::initializer_list<std::int64_t> shape, const std::vector<std::int32_t>& values) {
  Device device = cpu();
  OwnedTensor tensor(device, NumberType::i32, shape);
  EXPECT_EQ(tensor.view().elements(), static_cast<std::int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.view().i32());
  return tensor;
}

OwnedTensor ids(const std::vector<std::int32_t>& values) {
  return ids({static_cast<std::int64_t>(values.size())}, values);
}

OwnedTensor stored_as(NumberType type, const Tensor& tensor) {
  EXPECT_TRUE(tensor.contiguous());
  Device device = cpu();
  const std::int64_t a = tensor.dim(0);
  const std::int64_t b = tensor.rank() > 1 ? tensor.dim(1) : 1;
  const std::int64_t c = tensor.rank() > 2 ? tensor.dim(2) : 1;
  OwnedTensor stored(device, type, {a, b, c});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (type == NumberType::f32)
      stored.view().f32()[i] = tensor.f32()[i];
    else
      stored.view().as<std::uint16_t>()[i] =
          type == NumberType::f16 ? f16_from_f32(tensor.f32()[i]) : bf16_from_f32(tensor.f32()[i]);
  }
  return stored;
}

OwnedMatrix weights(NumberType type, std::int64_t out, std::int64_t in,
                    const std::function<float(std::int64_t, std::int64_t)>& rule) {
  Device device = cpu();
  const OwnedTensor floats = filled({out, in}, [&](std::int64_t i) { return rule(i / in, i % in); });
  OwnedMatrix matrix;
  matrix.w.layout = MatrixLayout::of(type, out, in);
  matrix.buffer = Buffer(device, matrix.w.layout.bytes);
  matrix.w.data = matrix.buffer.data();
  run(device, Quantize{.x = floats.view(), .y = matrix.buffer.data(), .layout = matrix.w.layout});
  return matrix;
}

OwnedMatrix random_weights(NumberType type, std::int64_t out, std::int64_t in, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  return weights(type, out, in, [&](std::int64_t, std::int64_t) { return uniform(random); });
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values;
  for_each_offset(tensor, [&](std::int64_t at) { values.push_back(tensor.f32()[at]); });
  return values;
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const std::vector<float> ours = values_of(actual);
  const std::vector<float> theirs = values_of(expected);
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(ours[i]), std::bit_cast<std::uint32_t>(theirs[i]))
        << what << ": element " << i << " of " << ours.size() << " is " << ours[i] << ", expected "
        << theirs[i];
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  const std::vector<float> ours = values_of(actual);
  const std::vector<float> theirs = values_of(expected);
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_TRUE(near_enough(ours[i], theirs[i], tolerance))
        << what << ": element " << i << " of " << ours.size() << " is " << ours[i] << ", expected "
        << theirs[i];
}

std::vector<std::int64_t> instruction_sets() {
  std::vector<std::int64_t> sets;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1)
    sets.push_back(left & -left);
  return sets;
}

std::string name_of_instruction_set(std::int64_t instruction_set) { return hwy::TargetName(instruction_set); }

WithInstructionSet::WithInstructionSet(std::int64_t instruction_set) {
  hwy::SetSupportedTargetsForTest(instruction_set);
}
WithInstructionSet::~WithInstructionSet() { hwy::SetSupportedTargetsForTest(0); }

}  // namespace moetune::testing
