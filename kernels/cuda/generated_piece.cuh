// What one thread makes of a generated matrix: 16 bytes, wherever they lie: a piece of a row, or a lane's
// share of a tile's chunk (tile_layout.h). Piece says which elements they are, packed_nibbles() and
// packed_bytes() what becomes of them, scales included.
#pragma once

#include "kernels/cuda/generated.cuh"
#include "kernels/number_type.h"
#include "kernels/tile_layout.h"
#include "kernels/weight_matrix.h"

namespace moetune::cuda {

inline constexpr std::int64_t kFp8Block = 128;
inline constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

__host__ __device__ constexpr int bits_of(NumberType type) {
  switch (type) {
    case NumberType::f32:
      return 32;
    case NumberType::f16:
    case NumberType::bf16:
      return 16;
    case NumberType::fp8:
    case NumberType::int8:
      return 8;
    default:
      return 4;
  }
}
__host__ __device__ constexpr bool is_int4(NumberType type) {
  return type == NumberType::int4 || type == NumberType::int4_g32;
}

// Where things lie: of MatrixLayout for rows, of TileLayout for tiles.
struct Places {
  std::byte* y;
  std::int64_t line_bytes;  // of a row or a tile
  std::int64_t chunk_bytes;
  std::int64_t pieces;         // of a row or a tile
  std::int64_t scales_offset;  // rows: from the start of the matrix; tiles, int8: from the start of the tile
  std::int64_t scales_per_row;
};

// The elements of one thread, as runs of eight neighbouring columns (four for f32).
template <NumberType type, Packing packing>
struct Piece {
  static constexpr int kElements = 128 / bits_of(type);
  static constexpr int kRun = kElements < 8 ? kElements : 8;
  static constexpr int kRuns = kElements / kRun;
  static constexpr std::int64_t kChunk = 512 / bits_of(type);  // columns of a chunk, tiles only

  std::int64_t line;  // row or tile
  std::int64_t piece;

  __device__ std::int64_t chunk() const { return piece / 64; }
  __device__ int lane() const { return static_cast<int>(piece % 32); }
  __device__ int tile_row() const { return lane() / 4 + static_cast<int>(piece % 64 / 32) * 8; }
  __device__ std::int64_t row() const {
    return packing == Packing::rows ? line : line * kTileRows + tile_row();
  }
  __device__ std::int64_t column(int run) const {
    if constexpr (packing == Packing::rows) return piece * kElements + run * kRun;
    const int t = lane() % 4;
    if constexpr (bits_of(type) == 4) return chunk() * kChunk + 32 * run + 8 * t;
    return chunk() * kChunk + (kRuns * t + run) * kRun;
  }
  __device__ std::int64_t bytes_before(const Places& places) const {
    if constexpr (packing == Packing::rows) return line * places.line_bytes + piece * 16;
    return line * places.line_bytes + chunk() * places.chunk_bytes + piece % 64 * 16;
  }
  __device__ std::byte* chunk_scales(const Places& places) const {
    return places.y + line * places.line_bytes + chunk() * places.chunk_bytes + 1024;
  }
};

__device__ __forceinline__ float largest_of_quad(float largest) {
  largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
}

// codes: four bits each, in the order of the elements of a Piece.
template <Packing packing>
__device__ __forceinline__ uint4 nibbles_packed(const std::uint32_t (&codes)[32]) {
  std::uint32_t words[4] = {0, 0, 0, 0};
  if constexpr (packing == Packing::tiles) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int at = i % 8 / 2 + i % 2 * 4;  // elements 0, 2, 4, 6 in the low half-word, 1, 3, 5, 7 above
      words[i / 8] |= codes[i] << (4 * at);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 32; ++i) words[i % 16 / 4] |= codes[i] << (i % 4 * 8 + i / 16 * 4);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Element groups that share a scale, in a thread's own terms: group of run r.
template <NumberType type, Packing packing>
struct Groups {
  // int4: the four threads of a quad share one. 32 wide: in tiles each run with the quad's; in rows a
  // thread's own.
  static constexpr int kCount = type == NumberType::int4 || packing == Packing::rows ? 1 : 4;
  static constexpr bool kSharedByQuad = type == NumberType::int4 || packing == Packing::tiles;
  __device__ static int of(int run) { return kCount == 1 ? 0 : run; }
};

template <NumberType type, Packing packing>
__device__ uint4 packed_nibbles(const GeneratedPart& part, const Places& places,
                                const Piece<type, packing>& piece, const int (&draws)[32]) {
  using Group = Groups<type, packing>;
  float largest[Group::kCount] = {};
#pragma unroll
  for (int i = 0; i < 32; ++i)
    largest[Group::of(i / 8)] = fmaxf(largest[Group::of(i / 8)], fabsf(number_of(part, draws[i])));
  std::uint32_t scale_bits[Group::kCount];
  float scale[Group::kCount];
#pragma unroll
  for (int g = 0; g < Group::kCount; ++g) {
    if constexpr (Group::kSharedByQuad) largest[g] = largest_of_quad(largest[g]);
    if constexpr (is_int4(type)) {
      scale_bits[g] = int4_scale(largest[g]);
      scale[g] = __half2float(__ushort_as_half(static_cast<std::uint16_t>(scale_bits[g])));
    } else {
      scale_bits[g] = quantized_fp4_scale(largest[g]);
      scale[g] = e8m0_value(scale_bits[g]);
    }
  }
  const bool is_shipped = part.shipped == type;
  if (!is_int4(type) && is_shipped) {
#pragma unroll
    for (int g = 0; g < Group::kCount; ++g) {
      const std::int64_t first = packing == Packing::rows ? piece.column(0) : piece.column(g) / 32 * 32;
      scale_bits[g] = piece.row() < part.out && first < part.in ? __float_as_uint(part.fp4_scale) >> 23 : 0U;
    }
  }
  std::uint32_t codes[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float value = number_of(part, draws[i]);
    const float of_group = scale[Group::of(i / 8)];
    if constexpr (is_int4(type))
      codes[i] = static_cast<std::uint32_t>(rounded(value, of_group, kLargestInt4) + 8);
    else
      codes[i] = is_shipped ? shipped_fp4_code(part, draws[i]) : fp4_code(__fdiv_rn(value, of_group));
  }
  const int t = static_cast<int>(piece.piece % 4);
#pragma unroll
  for (int g = 0; g < Group::kCount; ++g) {
    std::int64_t index = 0;
    bool is_mine = (t == 0 || !Group::kSharedByQuad) && piece.piece < places.pieces;
    std::byte* scales = nullptr;
    if constexpr (packing == Packing::rows) {
      const std::int64_t group = type == NumberType::int4 ? piece.piece / 4 : piece.piece;
      is_mine = is_mine && group < places.scales_per_row;
      index = piece.line * places.scales_per_row + group;
      scales = places.y + places.scales_offset;
    } else {
      index = g * kTileRows + piece.tile_row();
      scales = piece.chunk_scales(places);
    }
    if (!is_mine) continue;
    if constexpr (is_int4(type))
      reinterpret_cast<std::uint16_t*>(scales)[index] = static_cast<std::uint16_t>(scale_bits[g]);
    else
      reinterpret_cast<std::uint8_t*>(scales)[index] = static_cast<std::uint8_t>(scale_bits[g]);
  }
  return nibbles_packed<packing>(codes);
}

// largest: of every row for int8, of every block for fp8 that is quantized.
template <NumberType type, Packing packing>
__device__ uint4 packed_bytes(const GeneratedPart& part, const Places& places,
                              const Piece<type, packing>& piece, const int (&draws)[16],
                              const float* largest) {
  const std::int64_t row = piece.row();
  const bool is_shipped = part.shipped == type;
  float scale = 0.0F;
  if constexpr (type == NumberType::int8) {
    if (row < part.out) scale = __fdiv_rn(largest[row], kLargestInt8);
    if (packing == Packing::rows && piece.piece == 0)
      reinterpret_cast<float*>(places.y + places.scales_offset)[row] = scale;
    if (packing == Packing::tiles && piece.chunk() == 0 && piece.lane() % 4 == 0)
      reinterpret_cast<float*>(places.y + piece.line * places.line_bytes +
                               places.scales_offset)[piece.tile_row()] = scale;
  } else {
    // All rows of a tile lie in one block; the last ones may lie beyond the matrix.
    const std::int64_t first_row = packing == Packing::rows ? row : piece.line * kTileRows;
    const std::int64_t block = piece.column(0) / kFp8Block;
    const std::int64_t blocks = (part.in + kFp8Block - 1) / kFp8Block;
    if (is_shipped)
      scale = part.fp8_scale;
    else if (block < blocks)
      scale = __fdiv_rn(largest[first_row / kFp8Block * blocks + block], kLargestFp8);
    if (packing == Packing::rows && piece.piece % 8 == 0 && block < blocks)
      reinterpret_cast<float*>(places.y + places.scales_offset)[row * places.scales_per_row + block] = scale;
    if (packing == Packing::tiles && piece.piece % 64 == 0)
      *reinterpret_cast<uint4*>(piece.chunk_scales(places)) = {__float_as_uint(scale), 0, 0, 0};
  }
  std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    std::uint32_t code = 0;
    if constexpr (type == NumberType::int8)
      code = static_cast<std::uint32_t>(rounded(number_of(part, draws[i]), scale, kLargestInt8)) & 0xFFU;
    else if (is_shipped)
      code = shipped_fp8_code(draws[i]);
    else
      code = scale == 0.0F ? 0U : fp8_code(__fdiv_rn(number_of(part, draws[i]), scale));
    words[i / 4] |= code << (i % 4 * 8);
  }
  return {words[0], words[1], words[2], words[3]};
}

template <NumberType type>
__device__ std::uint32_t sixteen_bits(float value) {
  if constexpr (type == NumberType::f16) return __half_as_ushort(__float2half_rn(value));
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

}  // namespace moetune::cuda
