// What the elements of a KV cache are on a GPU: eight neighbouring ones as bf16 pairs, and one number in a
// cache's type. kv_type int8 has one f32 scale per token and head beside the cache; fp8 (e4m3) has none: keys
// and values are of a size that it covers.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

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

// The scale of a row whose largest magnitude this is, and one of its numbers; kernels/quantize_row.h says the
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
