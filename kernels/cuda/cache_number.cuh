// What the elements of a KV cache are on a GPU: eight neighbouring ones as bf16 pairs, and one number in a
// cache's type. kv_type int8 has one f32 scale per token and head beside the cache; fp8 (e4m3) has none: keys
// and values are of a size that it covers.
#pragma once

#include <cuda_fp8.h>

#include <type_traits>

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

// What a cache's numbers are multiplied as. e4m3 becomes f16: all of its numbers are f16 numbers, and from
// sm_89 on an instruction makes two of them where bf16 takes ten. int8 becomes bf16, because its scales may
// be of any size and weights times scales must not vanish.
template <class Number>
inline constexpr bool kIsHalf = std::is_same_v<Number, __nv_fp8_e4m3>;
template <class Number>
using Operand = std::conditional_t<kIsHalf<Number>, __half, __nv_bfloat16>;

template <class Number>
__device__ __forceinline__ Operand<Number> operand_of(float value) {
  if constexpr (kIsHalf<Number>)
    return __float2half_rn(fminf(fmaxf(value, -65504.0F), 65504.0F));
  else
    return __float2bfloat16_rn(value);
}
template <class Number>
__device__ __forceinline__ std::uint32_t operands_of(float low, float high) {
  if constexpr (kIsHalf<Number>) {
    std::uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
  } else {
    return pack2(low, high);
  }
}
// Operands of queries, which may be of any size: the largest f16 number in place of infinity.
template <class Number>
__device__ __forceinline__ std::uint32_t bounded_operands_of(float low, float high) {
  if constexpr (kIsHalf<Number>) {
    low = fminf(fmaxf(low, -65504.0F), 65504.0F);
    high = fminf(fmaxf(high, -65504.0F), 65504.0F);
  }
  return operands_of<Number>(low, high);
}
// mma() of operands.
template <class Number>
__device__ __forceinline__ void multiply_add(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                             std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (kIsHalf<Number>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    mma(c, a0, a1, a2, a3, b0, b1);
}
// Bytes `first` and first + 1 of a word of e4m3.
template <int first>
__device__ __forceinline__ std::uint32_t halves_of_e4m3(std::uint32_t bytes) {
  std::uint32_t d;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(static_cast<unsigned short>(bytes >> (8 * first))));
#else
  // In the upper bits of an f16, one below the sign's: 2^-8 of its value, subnormals included.
  const std::uint32_t high = __byte_perm(bytes, 0, first == 0 ? 0x1404 : 0x3424);
  const std::uint32_t small = (high & 0x80008000U) | ((high & 0x7F007F00U) >> 1);
  asm("{.reg .b32 by; mov.b32 by, 0x5C005C00; mul.rn.f16x2 %0, %1, by;}" : "=r"(d) : "r"(small));
#endif
  return d;
}

// Eight elements as they lie in the cache. Past the L1 cache: nothing is read twice, and a row that this
// kernel wrote is seen.
template <class Number>
struct Eight;
template <>
struct Eight<__nv_bfloat16> {
  uint4 bits;
  static __device__ __forceinline__ Eight from_global(const __nv_bfloat16* at) {
    return {__ldcg(reinterpret_cast<const uint4*>(at))};
  }
  static __device__ __forceinline__ Eight from_shared(const __nv_bfloat16* at) {
    return {*reinterpret_cast<const uint4*>(at)};
  }
  __device__ __forceinline__ uint4 pairs() const { return bits; }
  __device__ __forceinline__ uint4 operands() const { return bits; }
};
template <class Number>
struct EightBytes {
  uint2 bits;
  static constexpr NumberType kType =
      std::is_same_v<Number, std::int8_t> ? NumberType::int8 : NumberType::fp8;
  __device__ __forceinline__ uint4 pairs() const {
    const uint4 words{bits.x, bits.y, 0, 0};
    uint4 wide;
    Format<kType>::pairs(words, 0, wide.x, wide.y);
    Format<kType>::pairs(words, 1, wide.z, wide.w);
    return wide;
  }
  // As operands.
  __device__ __forceinline__ uint4 operands() const {
    if constexpr (kIsHalf<Number>)
      return {halves_of_e4m3<0>(bits.x), halves_of_e4m3<2>(bits.x), halves_of_e4m3<0>(bits.y),
              halves_of_e4m3<2>(bits.y)};
    else
      return pairs();
  }
};
template <>
struct Eight<std::int8_t> : EightBytes<std::int8_t> {
  static __device__ __forceinline__ Eight from_global(const std::int8_t* at) {
    return {{__ldcg(reinterpret_cast<const uint2*>(at))}};
  }
  static __device__ __forceinline__ Eight from_shared(const std::int8_t* at) {
    return {{*reinterpret_cast<const uint2*>(at)}};
  }
  static __device__ __forceinline__ Eight from_bits(std::uint32_t low, std::uint32_t high) {
    return {{make_uint2(low, high)}};
  }
};
template <>
struct Eight<__nv_fp8_e4m3> : EightBytes<__nv_fp8_e4m3> {
  static __device__ __forceinline__ Eight from_global(const __nv_fp8_e4m3* at) {
    return {{__ldcg(reinterpret_cast<const uint2*>(at))}};
  }
  static __device__ __forceinline__ Eight from_shared(const __nv_fp8_e4m3* at) {
    return {{*reinterpret_cast<const uint2*>(at)}};
  }
  static __device__ __forceinline__ Eight from_bits(std::uint32_t low, std::uint32_t high) {
    return {{make_uint2(low, high)}};
  }
};

// The scale of a row whose largest magnitude this is, and one of its numbers; kernels/attention.cpp says the
// same for a CPU.
__device__ __forceinline__ float cache_scale(float largest) { return largest / 127.0F; }
template <class Number>
__device__ __forceinline__ Number cached(float value, float scale) {
  if constexpr (std::is_same_v<Number, std::int8_t>)
    return static_cast<std::int8_t>(scale > 0.0F ? max(-127, min(127, __float2int_rn(value / scale))) : 0);
  else if constexpr (std::is_same_v<Number, __nv_fp8_e4m3>)
    return __nv_fp8_e4m3(value);
  else
    return narrow<Number>(value);
}
template <class Number>
inline constexpr bool kHasCacheScales = std::is_same_v<Number, std::int8_t>;

__device__ __forceinline__ float widen(__nv_fp8_e4m3 value) { return static_cast<float>(value); }
__device__ __forceinline__ float widen(std::int8_t value) { return static_cast<float>(value); }

// Calls body with a value of the C++ type that holds a cache's numbers. Throws std::invalid_argument for
// other types.
template <class Body>
void with_cache_type(NumberType type, const Body& body) {
  if (type == NumberType::fp8) return body(__nv_fp8_e4m3{});
  if (type == NumberType::int8) return body(std::int8_t{});
  with_float_type(type, "a KV cache", body);
}

}  // namespace moetune::cuda
