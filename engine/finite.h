// Looks for NaN and infinity in stored floating-point numbers, at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/number_type.h"

namespace moetune {

// Index of the first element whose exponent bits are all ones (NaN or infinity), -1 when there is none.
// type: f32, f16 or bf16; bytes: whole elements, any alignment.
std::int64_t first_not_finite(std::span<const std::byte> bytes, NumberType type);

}  // namespace moetune
