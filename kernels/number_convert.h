// One number from and to its 16-bit forms, in plain integer arithmetic: the definition that the SIMD paths
// are tested against. Rounding is to nearest, ties to even; NaN stays NaN; what f16 cannot hold becomes
// infinite.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

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

}  // namespace moetune
