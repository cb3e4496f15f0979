// A weight matrix (out, in) in any number type, plain or quantized, and where its parts lie in memory.
// Start at MatrixLayout: it is the only place that knows the byte layout.
//
// int4 and int4_g32: rows are cut into blocks of 32 elements; byte i (0..15) of a block holds element i in
// its low and element i + 16 in its high nibble, as value + 8. A last block that is not full is padded with
// zeros (nibble 8). One f16 scale per group. int8: one signed byte an element, one f32 scale per row.
// mxfp4: nibbles lie as in int4 (e2m1, zero is 0), one e8m0 byte per 32. fp8: one e4m3 byte an element; the
// f32 scale of a 128 x 128 block stands in each of its rows. Rows start at multiples of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/number_type.h"

namespace moetune {

// rows: as above. tiles: as kernels/tile_layout.h says, for the tensor cores; then only `bytes` has a meaning
// below.
enum class Packing : std::uint8_t { rows, tiles };

struct MatrixLayout {
  NumberType type = NumberType::f32;
  Packing packing = Packing::rows;
  std::int64_t out = 0;  // rows
  std::int64_t in = 0;   // columns

  std::int64_t row_bytes = 0;       // one row's values, padded
  std::int64_t scales_per_row = 0;  // 0: no scales
  std::int64_t scale_bytes = 0;     // of one scale
  std::int64_t scales_offset = 0;   // from the start of the matrix; values come first
  std::int64_t bytes = 0;           // the whole matrix, padded to 64

  // Throws std::invalid_argument for a type no matrix can be stored in.
  // Tiles of f32 do not exist: such a matrix stays in rows whatever is asked for.
  static MatrixLayout of(NumberType type, std::int64_t out, std::int64_t in, Packing packing = Packing::rows);
};

// View of a matrix laid out as above.
struct WeightMatrix {
  const void* data = nullptr;
  MatrixLayout layout;

  bool empty() const { return data == nullptr; }
  const std::byte* row_values(std::int64_t row) const {
    return static_cast<const std::byte*>(data) + row * layout.row_bytes;
  }
  const std::byte* row_scales(std::int64_t row) const {
    return static_cast<const std::byte*>(data) + layout.scales_offset +
           row * layout.scales_per_row * layout.scale_bytes;
  }
};

// One routed expert in memory: gate, up and down matrices in one contiguous block.
struct ExpertLayout {
  MatrixLayout gate;  // (inner, hidden)
  MatrixLayout up;    // (inner, hidden)
  MatrixLayout down;  // (hidden, inner)
  std::int64_t up_offset = 0;
  std::int64_t down_offset = 0;
  std::int64_t bytes = 0;  // padded to 64

  static ExpertLayout of(NumberType type, std::int64_t hidden, std::int64_t inner,
                         Packing packing = Packing::rows);

  WeightMatrix gate_of(const void* expert) const { return {expert, gate}; }
  WeightMatrix up_of(const void* expert) const {
    return {static_cast<const std::byte*>(expert) + up_offset, up};
  }
  WeightMatrix down_of(const void* expert) const {
    return {static_cast<const std::byte*>(expert) + down_offset, down};
  }
};

}  // namespace moetune
