// Sums and maxima over the four lanes that hold parts of the same row of a product's result (PTX ISA, "Matrix
// fragments").
#pragma once

namespace moetune::cuda {

__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 2);
  return value;
}
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
  return value;
}

}  // namespace moetune::cuda
