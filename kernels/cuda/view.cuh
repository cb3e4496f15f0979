// What a kernel needs of a Tensor, and small helpers every kernel uses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/tensor.h"

namespace moetune::cuda {

// Rows of f32; the innermost axis is contiguous.
struct Rows {
  float* data;
  std::int64_t stride;
  __device__ float* row(std::int64_t index) const { return data + index * stride; }
};
inline Rows rows_of(const Tensor& tensor) { return {tensor.f32(), tensor.stride(0)}; }

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  return value;
}

// Counts a block's arrival, for one thread behind a __syncthreads(): what the block wrote before is visible
// to the block whose arrival is the last, behind its own __syncthreads(). Cheaper than a fence by every
// thread. Returns how many came before.
__device__ __forceinline__ int arrive(int* counter) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// One element of any unquantized type.
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class To>
__device__ __forceinline__ To narrow(float value) {
  if constexpr (sizeof(To) == 4)
    return value;
  else if constexpr (std::is_same_v<To, __half>)
    return __float2half_rn(value);
  else
    return __float2bfloat16_rn(value);
}

// Calls body with a value of the C++ type that holds an unquantized number type.
// Throws std::invalid_argument for other types; what: for its message.
template <class Body>
void with_float_type(NumberType type, const char* what, const Body& body) {
  switch (type) {
    case NumberType::f32:
      return body(float{});
    case NumberType::f16:
      return body(__half{});
    case NumberType::bf16:
      return body(__nv_bfloat16{});
    default:
      throw std::invalid_argument(std::string(what) + " cannot be " + std::string(name_of(type)) +
                                  " (accepted: f32, f16, bf16)");
  }
}

}  // namespace moetune::cuda
