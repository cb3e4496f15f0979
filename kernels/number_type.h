// How numbers are stored: one word for weights, caches, activations and knobs alike. This header needs
// nothing but the standard library, so it is the one file of kernels/ that engine/facts/ may include.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moetune {

enum class NumberType : std::uint8_t {
  f32,
  f16,
  bf16,
  fp8,       // e4m3 with one f32 scale per 128 x 128 block, as DeepSeek ships
  int8,      // symmetric, one scale per row
  int4,      // symmetric, one scale per group of 128 along a row, the last group may be shorter
  int4_g32,  // symmetric, one scale per group of 32
  mxfp4,     // e2m1 with a shared power-of-two scale per 32 (OCP MX)
  i32,       // token ids, expert ids, positions
};

// Names as they stand in knobs, profiles and reports.
std::string_view name_of(NumberType type);
std::optional<NumberType> number_type_named(std::string_view name);

// Width of a quantization group along a row; 0: none, or one scale a row.
int quantization_group(NumberType type);

}  // namespace moetune
