// One number from and to its narrow forms, in plain integer arithmetic: the definition that the SIMD and GPU
// paths are tested against. Rounding is to nearest, ties to even; NaN stays NaN; what f16 cannot hold becomes
// infinite; fp8 and fp4 have no infinity and saturate.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/small_floats.h"

namespace moetune {

inline float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bf16_from_f32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN to infinity.
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t half = 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((bits + half) >> 16);
}

inline float f32_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1FU ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

inline std::uint16_t f16_from_f32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);   // NaN
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65536 and above
  if (magnitude < 0x38800000U) {  // below 2^-14: a multiple of 2^-24
    const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24F);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(steps));
  }
  const std::uint32_t half = 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((magnitude - (112U << 23) + half) >> 13));
}

// e4m3: sign, 4 bits of exponent (bias 7), 3 of mantissa.
inline float f32_from_fp8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xFU;
  const std::uint32_t mantissa = bits & 7U;
  if ((bits & 0x7FU) == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);  // NaN
  if (exponent == 0)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-9F) | sign);
  return std::bit_cast<float>(sign | ((exponent + (127 - 7)) << 23) | (mantissa << 20));
}

inline std::uint8_t fp8_from_f32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint8_t>(sign | 0x7FU);
  if (magnitude >= std::bit_cast<std::uint32_t>(kLargestFp8)) return static_cast<std::uint8_t>(sign | 0x7EU);
  if (magnitude < 0x3C800000U)  // below 2^-6: a multiple of 2^-9
    return static_cast<std::uint8_t>(
        sign | static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p9F)));
  const std::uint32_t half = 0x7FFFFU + ((magnitude >> 20) & 1U);
  return static_cast<std::uint8_t>(sign | ((magnitude - (120U << 23) + half) >> 20));
}

// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, in 4 bits.
inline float f32_from_fp4(unsigned bits) {
  constexpr float kValues[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  return (bits & 8U) != 0 ? -kValues[bits & 7U] : kValues[bits & 7U];
}

inline unsigned fp4_from_f32(float value) {
  return fp4_of_size(std::fabs(value)) | (std::bit_cast<std::uint32_t>(value) >> 31 << 3);
}

inline float f32_from_e8m0(std::uint8_t bits) { return std::bit_cast<float>(f32_bits_of_e8m0(bits)); }

// Of an mxfp4 group whose largest magnitude this is.
inline std::uint8_t mxfp4_scale(float largest) {
  return static_cast<std::uint8_t>(e8m0_for_largest(std::bit_cast<std::uint32_t>(largest)));
}

}  // namespace moetune
