// One product by cuBLASLt, with its algorithm looked up once a shape. Start at cublas_product().
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/device.h"

namespace moetune::cuda {

struct CublasProduct {
  const __nv_bfloat16* w;  // (out, width)
  const __nv_bfloat16* x;  // (tokens, width)
  float* y;                // (tokens, out): y = x w^T (+ bias), or y += where accumulates
  std::int64_t y_stride;   // between rows
  int out;
  int tokens;
  int width;          // a multiple of 32, so that every row is aligned
  const float* bias;  // (out), null: none
  bool accumulates;
  void* workspace;  // kCublasWorkspaceBytes of device memory, 256-byte aligned
};
// Allocates no device memory, so that it can be captured. Throws std::runtime_error where why_no_cublas()
// says something, and with cuBLAS's own words where it refuses.
void cublas_product(Cuda& cuda, const CublasProduct& op);

}  // namespace moetune::cuda
