// Weights of a tile (kernels/tile_layout.h) as operand A of mma.sync.m16n8k16 in bf16, for every number type.
// Start at Format<type>::pairs(): 16 bytes of a lane give kMmas pairs of registers.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/number_type.h"

namespace moetune::cuda {

// c += a b: 16 x 16 by 16 x 8, bf16 in, f32 out (PTX ISA, "Matrix fragments for mma.m16n8k16").
__device__ __forceinline__ void mma(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                    std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  // Not volatile: the compiler may interleave independent chains, which is what hides their latency.
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// c = a b: the first of a chain, which needs no zeros written beforehand.
__device__ __forceinline__ void mma_first(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                          std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0F));
}

__device__ __forceinline__ std::uint32_t word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Two bf16 at a time; both are exact here.
__device__ __forceinline__ std::uint32_t subtract2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{.reg .b32 one; mov.b32 one, 0xBF80BF80; fma.rn.bf16x2 %0, %2, one, %1;}" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t multiply2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{.reg .b32 none; mov.b32 none, 0x80008000; fma.rn.bf16x2 %0, %1, %2, none;}"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t pack2(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
// (a & mask) | bits in one instruction.
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t a, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

// kOffset:      pairs() gives value + kOffset, for whoever takes it off again; exact_pairs() gives the value
// kMmas:        products that 16 bytes a lane feed
// kChunk:       columns they cover
// kScaleGroups: groups of 32 columns with their own scale in a chunk; 1: the whole chunk; 0: no scale in the
// chunk kScaleBytes:  of a chunk
template <NumberType type>
struct Format;

template <>
struct Format<NumberType::bf16> {
  static constexpr int kMmas = 2, kChunk = 32, kScaleGroups = 0, kScaleBytes = 0, kOffset = 0;
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    first = word(w, 2 * m);
    second = word(w, 2 * m + 1);
  }
};

// Ten bits of mantissa become seven: the price of one kind of product for all types. bf16 has f16's range,
// not the reverse.
template <>
struct Format<NumberType::f16> : Format<NumberType::bf16> {
  static __device__ __forceinline__ std::uint32_t rounded(std::uint32_t halves) {
    const float2 value = __half22float2(*reinterpret_cast<const __half2*>(&halves));
    return pack2(value.x, value.y);
  }
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    first = rounded(word(w, 2 * m));
    second = rounded(word(w, 2 * m + 1));
  }
};

template <>
struct Format<NumberType::int8> {
  static constexpr int kMmas = 4, kChunk = 64, kScaleGroups = 0, kScaleBytes = 0, kOffset = 0;
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    // A byte below 2^23 is a float's last mantissa bits: 0x4B000000 | u is 2^23 + u. -127 .. 127 fit bf16
    // exactly.
    const std::uint32_t shifted = word(w, m) ^ 0x80808080U;
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      value[i] =
          __uint_as_float(__byte_perm(shifted, 0x4B000000U, 0x7440U | static_cast<unsigned>(i))) - 8388736.0F;
    first = pack2(value[0], value[1]);
    second = pack2(value[2], value[3]);
  }
};

template <>
struct Format<NumberType::fp8> {
  static constexpr int kMmas = 4, kChunk = 64, kScaleGroups = 1, kScaleBytes = 16, kOffset = 0;
  // e4m3 in the upper bits of a bf16 is 2^-120 of its value, subnormals included.
  static __device__ __forceinline__ std::uint32_t widened(std::uint32_t bytes_in_high_halves) {
    const std::uint32_t sign = bytes_in_high_halves & 0x80008000U;
    return multiply2(sign | ((bytes_in_high_halves & 0x7F007F00U) >> 4), 0x7B807B80U);
  }
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    const std::uint32_t bytes = word(w, m);
    first = widened(__byte_perm(bytes, 0, 0x1404));
    second = widened(__byte_perm(bytes, 0, 0x3424));
  }
};

template <>
struct Format<NumberType::int4> {
  static constexpr int kMmas = 8, kChunk = 128, kScaleGroups = 1, kScaleBytes = 32, kOffset = 136;
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    // A nibble in the last mantissa bits of bf16 128 is 128 + nibble, which is 136 + value.
    const std::uint32_t nibbles = word(w, m / 2) >> (8 * (m % 2));
    first = masked_or(nibbles, 0x000F000FU, 0x43004300U);
    second = masked_or(nibbles >> 4, 0x000F000FU, 0x43004300U);
  }
  static __device__ __forceinline__ void exact_pairs(const uint4& w, int m, std::uint32_t& first,
                                                     std::uint32_t& second) {
    pairs(w, m, first, second);
    first = subtract2(first, 0x43084308U);
    second = subtract2(second, 0x43084308U);
  }
};

template <>
struct Format<NumberType::int4_g32> : Format<NumberType::int4> {
  static constexpr int kScaleGroups = 4, kScaleBytes = 128;
};

template <>
struct Format<NumberType::mxfp4> {
  static constexpr int kMmas = 8, kChunk = 128, kScaleGroups = 4, kScaleBytes = 64, kOffset = 0;
  // e2m1 in the right bits of a bf16 is 2^-126 of its value, the subnormal 0.5 included.
  static __device__ __forceinline__ std::uint32_t widened(std::uint32_t nibbles) {
    return multiply2(((nibbles & 0x00080008U) << 12) | ((nibbles & 0x00070007U) << 6), 0x7E807E80U);
  }
  static __device__ __forceinline__ void pairs(const uint4& w, int m, std::uint32_t& first,
                                               std::uint32_t& second) {
    const std::uint32_t nibbles = word(w, m / 2) >> (8 * (m % 2));
    first = widened(nibbles);
    second = widened(nibbles >> 4);
  }
};

// Where in x, counted from the start of the chunk, a lane finds the eight elements of its products 2 i and 2
// i + 1.
template <NumberType type>
__device__ __forceinline__ int x_offset(int t, int i) {
  if constexpr (Format<type>::kChunk == 32)
    return 8 * t;
  else if constexpr (Format<type>::kChunk == 64)
    return 16 * t + 8 * i;
  else
    return 32 * i + 8 * t;
}

}  // namespace moetune::cuda
