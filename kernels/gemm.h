// Gemm: y = x w^T (+ bias), with w in any number type. Activations stay f32: only weights are quantized.
// Every element of y is summed in the same order whatever the number of tokens or threads, so that a step
// decoded alone equals the same step inside a batch bit for bit.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct Gemm {
  Tensor x;                 // (tokens, in) f32, rows may be strided
  WeightMatrix w;           // (out, in)
  Tensor y;                 // (tokens, out) f32, rows may be strided
  Tensor bias{};            // (out) f32, or empty
  bool accumulate = false;  // y += instead of y =
};
void run(Cpu& cpu, const Gemm& op);
void run(Cuda& cuda, const Gemm& op);

}  // namespace moetune
