// Random draws of a row of a generated matrix: see kernels/generate.h.
#pragma once

#include <cstdint>
#include <span>

namespace moetune {

// draws[i]: the byte sum, 0 .. 1020, of word (first_column + i) % 4 of Philox counter
// ((first_column + i) / 4, row, tensor, layer).
void draw_row(std::uint64_t seed, std::uint32_t layer, std::uint32_t tensor, std::uint32_t row,
              std::int64_t first_column, std::span<std::uint32_t> draws);

}  // namespace moetune
