// Tensors and weight matrices for tests: made from a rule, poisoned, compared. Start at filled() and
// weights().
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune::testing {

// Every type a weight matrix can have.
inline constexpr NumberType kWeightTypes[] = {NumberType::f32,      NumberType::f16,  NumberType::bf16,
                                              NumberType::fp8,      NumberType::int8, NumberType::int4,
                                              NumberType::int4_g32, NumberType::mxfp4};

// How far a product of fast and plain arithmetic may lie apart, relative to the sum of the magnitudes added.
inline constexpr double kSumTolerance = 1e-6;

Device cpu(int threads = 1);

// An f32 tensor of NaN: what an op does not write stays visible.
OwnedTensor poisoned(std::initializer_list<std::int64_t> shape);
void poison(const Tensor& tensor);

// f32, element i (in memory order) = rule(i).
OwnedTensor filled(std::initializer_list<std::int64_t> shape, const std::function<float(std::int64_t)>& rule);
// f32, uniform in [-1, 1).
OwnedTensor random_floats(std::initializer_list<std::int64_t> shape, unsigned seed);
// i32
OwnedTensor ids(std::initializer_list<std::int64_t> shape, const std::vector<std::int32_t>& values);
OwnedTensor ids(const std::vector<std::int32_t>& values);
// The same numbers as `tensor`, stored as f16 or bf16.
OwnedTensor stored_as(NumberType type, const Tensor& tensor);

// A matrix that owns its bytes; w is the view.
struct OwnedMatrix {
  Buffer buffer;
  WeightMatrix w;
};
OwnedMatrix weights(NumberType type, std::int64_t out, std::int64_t in,
                    const std::function<float(std::int64_t row, std::int64_t column)>& rule);
OwnedMatrix random_weights(NumberType type, std::int64_t out, std::int64_t in, unsigned seed);

// The elements of a tensor with any strides, in order.
std::vector<float> values_of(const Tensor& tensor);

// Bit for bit, so that equal NaN are equal and 0 is not -0. Fails the test, naming the first difference.
void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& what);
// |actual - expected| <= tolerance * max(1, |expected|), NaN only where NaN is expected.
void expect_close(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what);

// The instruction sets that this machine can run, the plain one included; each runs the SIMD code compiled
// for it.
std::vector<std::int64_t> instruction_sets();
std::string name_of_instruction_set(std::int64_t instruction_set);

// Restricts SIMD code to one instruction set while it lives.
class WithInstructionSet {
 public:
  explicit WithInstructionSet(std::int64_t instruction_set);
  ~WithInstructionSet();
  WithInstructionSet(const WithInstructionSet&) = delete;
  WithInstructionSet& operator=(const WithInstructionSet&) = delete;
};

}  // namespace moetune::testing
