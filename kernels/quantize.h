// Quantize: a float matrix into any weight layout (weight_matrix.h); Dequantize: back. Round to nearest even,
// symmetric: int8 scale = max|w| / 127 per row, int4 scale = max|w| / 7 per group, stored as f16 (rounded up
// so that nothing clips), fp8 scale = max|w| / 448 per block of 128 x 128 counted from the matrix' first row
// and column, mxfp4 as OCP MX prescribes (what exceeds 6 of its scale saturates).
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// Throws std::invalid_argument where a weight is not finite, or too large for the scale or 16-bit type it
// would need: the message names row and column.
struct Quantize {
  Tensor x;           // (out, in) f32, f16 or bf16, rows may be strided
  void* y = nullptr;  // layout.bytes long; padding is written as zeros
  MatrixLayout layout;
};
void run(Cpu& cpu, const Quantize& op);
void run(Cuda& cuda, const Quantize& op);

struct Dequantize {
  WeightMatrix x;
  Tensor y;  // (out, in) f32, rows may be strided
};
void run(Cpu& cpu, const Dequantize& op);
void run(Cuda& cuda, const Dequantize& op);

// One row of a matrix as floats; y has room for layout.in.
void dequantize_row(const WeightMatrix& x, std::int64_t row, float* y);

}  // namespace moetune
