// Generate: a weight matrix of numbers that are stored nowhere. Element (row, column) is a pure function of
// seed, layer, tensor, row and column, the same on every device: models too large to ship or to load can be
// measured, and a part of a matrix has the numbers that the whole would have had there. Start at
// NumberSource.
//
// A number is the sum of the four bytes of a Philox word, less its mean: an integer of -510 .. 510 with a
// nearly normal spread. Integers and one multiplication leave nothing to rounding, so that processor and GPU
// agree to the bit. It is scaled to the deviation and rounded to the type that the model ships in, as a
// checkpoint's would be; only then is it quantized, by the rules of quantize.h. Into the shipped type itself
// nothing is quantized: fp8 and mxfp4 then have one scale for the whole matrix.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/number_type.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// Changes whenever the numbers do: part of a synthetic model's identity.
inline constexpr int kGeneratorVersion = 1;

inline constexpr int kLargestDraw = 510;              // 4 x 255 / 2
inline constexpr float kDrawDeviation = 147.801665F;  // sqrt(4 x (256^2 - 1) / 12)

struct NumberSource {
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  std::uint32_t tensor = 0;               // within the layer
  NumberType shipped = NumberType::bf16;  // f32, f16, bf16, fp8 or mxfp4
  float deviation = 1.0F;                 // standard deviation

  float step() const { return deviation / kDrawDeviation; }
};

struct Generate {
  NumberSource source;
  std::int64_t in = 0;         // columns of the whole matrix: an int8 row keeps the scale of its full width
  std::int64_t first_row = 0;  // of the part that is made
  std::int64_t first_column = 0;  // fp8 blocks and int4 groups are counted from here
  void* y = nullptr;              // layout.bytes long; padding is written as zeros
  MatrixLayout layout;            // of the part
};
// Throws std::invalid_argument for a type that is not shipped or cannot be made.
void run(Cpu& cpu, const Generate& op);
void run(Cuda& cuda, const Generate& op);

// Elements [first_column, first_column + values.size()) of a row, on the host.
void generate_row(const NumberSource& source, std::int64_t row, std::int64_t first_column,
                  std::span<float> values);

// One scale for all of a matrix in the type it ships in.
float shipped_fp8_scale(const NumberSource& source);
std::uint8_t shipped_mxfp4_scale(const NumberSource& source);

}  // namespace moetune
