// How a weight matrix (out, in) lies in GPU memory: tiles of 16 rows, cut along `in` into chunks that one
// warp reads with two 16-byte loads a lane, in exactly the order in which the tensor cores want them (mma
// m16n8k16, operand A). A tile is contiguous, so that a warp streams it at the memory's full rate. Start at
// TileLayout::of().
//
// A chunk holds 16 rows x `chunk` elements in 1,024 bytes, then the scales that belong to it:
//   bytes [lane * 16, +16)        row lane / 4,     this lane's elements
//   bytes [512 + lane * 16, +16)  row lane / 4 + 8, this lane's elements
// Which elements of the chunk are a lane's (t = lane % 4), in the order of the 16 bytes:
//   bf16, f16       8t .. 8t + 7
//   int8, fp8       16t .. 16t + 15
//   4 bits          word j (0..3): elements 32j + 8t + {0, 2, 4, 6 | 1, 3, 5, 7} in its low and high
//   half-words,
//                   lowest nibble first; int4 as value + 8, mxfp4 as e2m1
// Scales of a chunk: int4 16 f16 (one a row); int4_g32 4 x 16 f16 (group, row); mxfp4 4 x 16 e8m0 bytes; fp8
// one f32 in 16 bytes; int8 none: its 16 f32 row scales follow the last chunk of the tile.
#pragma once

#include <cstdint>

#include "kernels/number_type.h"

namespace moetune {

inline constexpr std::int64_t kTileRows = 16;

struct TileLayout {
  NumberType type = NumberType::bf16;
  std::int64_t out = 0;          // rows
  std::int64_t in = 0;           // columns
  std::int64_t chunk = 0;        // columns of one chunk
  std::int64_t chunk_bytes = 0;  // 1,024 and its scales
  std::int64_t chunks = 0;       // of one tile; the last is padded with zeros
  std::int64_t tiles = 0;        // the last is padded with zeros
  std::int64_t tile_bytes = 0;
  std::int64_t bytes = 0;  // the whole matrix, a multiple of 256

  // Throws std::invalid_argument for a type that has no tiles (f32, i32).
  static TileLayout of(NumberType type, std::int64_t out, std::int64_t in);
};

// Where an element's bits are, from the start of the matrix.
struct TilePlace {
  std::int64_t byte = 0;
  int shift = 0;  // of a nibble within its byte: 0 or 4
};
TilePlace place_in_tiles(const TileLayout& layout, std::int64_t row, std::int64_t column);
// Byte of the scale that applies to an element; -1 for types without scales.
std::int64_t scale_place_in_tiles(const TileLayout& layout, std::int64_t row, std::int64_t column);

}  // namespace moetune
