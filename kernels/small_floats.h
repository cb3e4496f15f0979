// What host and device share of the number formats below 16 bits: limits, and the steps that are integer
// arithmetic or comparisons and so need no instruction of their own. The conversions themselves:
// number_convert.h on the host, cuda/generated.cuh on the device.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MOETUNE_HOST_DEVICE __host__ __device__
#else
#define MOETUNE_HOST_DEVICE
#endif

namespace moetune {

inline constexpr float kLargestInt8 = 127.0F;  // -128 is not used: a scale serves both signs
inline constexpr float kLargestInt4 = 7.0F;
inline constexpr float kLargestFp8 = 448.0F;  // e4m3
inline constexpr float kLargestFp4 = 6.0F;    // e2m1

// e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4 and 6: the number of the one nearest to size >= 0, ties to the even
// number.
MOETUNE_HOST_DEVICE inline unsigned fp4_of_size(float size) {
  return size <= 0.25F   ? 0U
         : size < 0.75F  ? 1U
         : size <= 1.25F ? 2U
         : size < 1.75F  ? 3U
         : size <= 2.5F  ? 4U
         : size < 3.5F   ? 5U
         : size <= 5.0F  ? 6U
                         : 7U;
}

// e8m0, the shared scale of an mxfp4 group: 2^(code - 127), as the bits of an f32. 255 would be NaN and is
// never written.
MOETUNE_HOST_DEVICE inline std::uint32_t f32_bits_of_e8m0(std::uint32_t code) {
  return code == 0 ? 0x00400000U : code << 23;
}

// The e8m0 code for a group whose largest magnitude has these f32 bits: the power of two below it maps to 4,
// as OCP MX prescribes.
MOETUNE_HOST_DEVICE inline std::uint32_t e8m0_for_largest(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 23;
  return exponent < 2 ? 0U : exponent - 2U;
}

}  // namespace moetune
