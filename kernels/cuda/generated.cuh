// The numbers of a generated matrix on the device: the same draws and the same roundings as generate.cpp, by
// instructions that round as IEEE says, whatever the compiler would like to contract. Start at take_draws().
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/view.cuh"
#include "kernels/generate.h"
#include "kernels/number_type.h"
#include "kernels/small_floats.h"

namespace moetune::cuda {

// Generate as a kernel sees it. Rows and columns are the part's own unless they are said to be the whole's.
struct GeneratedPart {
  std::uint64_t seed;
  std::uint32_t layer;
  std::uint32_t tensor;
  float step;
  float fp8_scale;  // where the model ships in fp8 and mxfp4
  float fp4_scale;
  NumberType shipped;
  std::int64_t first_row;
  std::int64_t first_column;
  std::int64_t out;
  std::int64_t in;
};

__device__ __forceinline__ int draw_of(std::uint32_t word) {
  return static_cast<int>((word & 0xFFU) + ((word >> 8) & 0xFFU) + ((word >> 16) & 0xFFU) + (word >> 24)) -
         kLargestDraw;
}

// Draws of `count` (4 or 8) columns of the part from `column` on; beyond its end 0, which stands for the
// number 0.
template <int count>
__device__ __forceinline__ void take_draws(const GeneratedPart& part, std::int64_t row, std::int64_t column,
                                           std::int64_t end, int* draws) {
  const auto whole_row = static_cast<std::uint32_t>(part.first_row + row);
  const std::int64_t whole_column = part.first_column + column;
  if (row >= part.out || column >= end) {
#pragma unroll
    for (int i = 0; i < count; ++i) draws[i] = 0;
    return;
  }
  if (whole_column % 4 == 0) {
#pragma unroll
    for (int block = 0; block < count / 4; ++block) {
      const Random4 random = philox(static_cast<std::uint32_t>(whole_column / 4 + block), whole_row,
                                    part.tensor, part.layer, part.seed);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        draws[4 * block + i] = column + 4 * block + i < end ? draw_of(random.value[i]) : 0;
    }
    return;
  }
  // Only a part cut at an odd column comes here.
  for (int i = 0; i < count; ++i) {
    const std::int64_t at = whole_column + i;
    const Random4 random =
        philox(static_cast<std::uint32_t>(at / 4), whole_row, part.tensor, part.layer, part.seed);
    const std::uint32_t low = at % 2 == 0 ? random.value[0] : random.value[1];
    const std::uint32_t high = at % 2 == 0 ? random.value[2] : random.value[3];
    draws[i] = column + i < end ? draw_of(at % 4 < 2 ? low : high) : 0;
  }
}

__device__ __forceinline__ std::uint32_t fp8_code(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}
__device__ __forceinline__ float fp8_value(std::uint32_t code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), __NV_E4M3)));
}

__device__ __forceinline__ std::uint32_t fp4_code(float value) {
  return fp4_of_size(fabsf(value)) | (__float_as_uint(value) >> 31 << 3);
}
__device__ __forceinline__ float fp4_value(std::uint32_t code) {
  const std::uint32_t size = code & 7U;  // 0 and 0.5 are subnormal; the others 2^(e - 1) (1 + m / 2)
  const float value = size < 2 ? 0.5F * static_cast<float>(size)
                               : __uint_as_float(((size >> 1) + 126U) << 23 | (size & 1U) << 22);
  return (code & 8U) != 0 ? -value : value;
}

// The bits that stand for a draw where the matrix stays in the type it ships in.
__device__ __forceinline__ std::uint32_t shipped_fp8_code(int draw) {
  return fp8_code(__fmul_rn(static_cast<float>(draw), kLargestFp8 / static_cast<float>(kLargestDraw)));
}
__device__ __forceinline__ std::uint32_t shipped_fp4_code(const GeneratedPart& part, int draw) {
  return fp4_code(__fdiv_rn(__fmul_rn(static_cast<float>(draw), part.step), part.fp4_scale));
}

// The number that a draw stands for.
__device__ __forceinline__ float number_of(const GeneratedPart& part, int draw) {
  const float exact = __fmul_rn(static_cast<float>(draw), part.step);
  switch (part.shipped) {
    case NumberType::bf16:
      return __bfloat162float(__float2bfloat16_rn(exact));
    case NumberType::f16:
      return __half2float(__float2half_rn(exact));
    case NumberType::fp8:
      return __fmul_rn(fp8_value(shipped_fp8_code(draw)), part.fp8_scale);
    case NumberType::mxfp4:
      return __fmul_rn(fp4_value(shipped_fp4_code(part, draw)), part.fp4_scale);
    default:
      return exact;
  }
}

// quantize.cpp's arithmetic.
__device__ __forceinline__ int rounded(float value, float scale, float limit) {
  if (scale == 0.0F) return 0;
  return static_cast<int>(fminf(fmaxf(rintf(__fdiv_rn(value, scale)), -limit), limit));
}
__device__ __forceinline__ std::uint16_t int4_scale(float largest) {
  std::uint16_t bits = __half_as_ushort(__float2half_rn(__fdiv_rn(largest, kLargestInt4)));
  if (__fmul_rn(__half2float(__ushort_as_half(bits)), kLargestInt4) < largest) ++bits;
  return bits;
}
__device__ __forceinline__ std::uint32_t quantized_fp4_scale(float largest) {
  return e8m0_for_largest(__float_as_uint(largest));
}
__device__ __forceinline__ float e8m0_value(std::uint32_t bits) {
  return __uint_as_float(f32_bits_of_e8m0(bits));
}

}  // namespace moetune::cuda
