#include "kernels/tile_layout.h"

#include <cassert>
#include <stdexcept>
#include <string>

namespace moetune {
namespace {
constexpr std::int64_t kChunkValueBytes = 1024;
constexpr std::int64_t kMatrixAlignment = 256;

std::int64_t ceil_div(std::int64_t amount, std::int64_t unit) { return (amount + unit - 1) / unit; }

// Bytes of a chunk's scales, and of a tile's.
struct ScaleBytes {
  std::int64_t per_chunk = 0;
  std::int64_t per_tile = 0;
};

std::int64_t bits_of(NumberType type) {
  switch (type) {
    case NumberType::bf16:
    case NumberType::f16:
      return 16;
    case NumberType::int8:
    case NumberType::fp8:
      return 8;
    case NumberType::int4:
    case NumberType::int4_g32:
    case NumberType::mxfp4:
      return 4;
    case NumberType::f32:
    case NumberType::i32:
      break;
  }
  throw std::invalid_argument("a matrix cannot be tiled as " + std::string(name_of(type)) +
                              " (accepted: f16, bf16, fp8, int8, int4, int4_g32, mxfp4)");
}

ScaleBytes scale_bytes_of(NumberType type) {
  switch (type) {
    case NumberType::int4:
      return {.per_chunk = kTileRows * 2};
    case NumberType::int4_g32:
      return {.per_chunk = 4 * kTileRows * 2};
    case NumberType::mxfp4:
      return {.per_chunk = 4 * kTileRows};
    case NumberType::fp8:
      return {.per_chunk = 16};
    case NumberType::int8:
      return {.per_tile = kTileRows * 4};
    default:
      return {};
  }
}
}  // namespace

TileLayout TileLayout::of(NumberType type, std::int64_t out, std::int64_t in) {
  assert(out >= 0 && in >= 0);
  const ScaleBytes scales = scale_bytes_of(type);
  TileLayout layout;
  layout.type = type;
  layout.out = out;
  layout.in = in;
  layout.chunk = kChunkValueBytes * 8 / bits_of(type) / kTileRows;
  layout.chunk_bytes = kChunkValueBytes + scales.per_chunk;
  layout.chunks = ceil_div(in, layout.chunk);
  layout.tiles = ceil_div(out, kTileRows);
  layout.tile_bytes = layout.chunks * layout.chunk_bytes + scales.per_tile;
  layout.bytes = ceil_div(layout.tiles * layout.tile_bytes, kMatrixAlignment) * kMatrixAlignment;
  return layout;
}

TilePlace place_in_tiles(const TileLayout& layout, std::int64_t row, std::int64_t column) {
  assert(row >= 0 && row < layout.tiles * kTileRows && column >= 0 && column < layout.chunks * layout.chunk);
  const std::int64_t chunk = column / layout.chunk;
  const std::int64_t at = column % layout.chunk;
  const std::int64_t tile_row = row % kTileRows;
  std::int64_t lane_of_row = 0;   // t
  std::int64_t byte_of_lane = 0;  // 0 .. 15
  int shift = 0;
  switch (bits_of(layout.type)) {
    case 16:
      lane_of_row = at / 8;
      byte_of_lane = at % 8 * 2;
      break;
    case 8:
      lane_of_row = at / 16;
      byte_of_lane = at % 16;
      break;
    default: {
      const std::int64_t in_group = at % 32;
      const std::int64_t element = in_group % 8;
      lane_of_row = in_group / 8;
      byte_of_lane = at / 32 * 4 + element % 2 * 2 + element / 4;
      shift = static_cast<int>(element / 2 % 2) * 4;
    }
  }
  const std::int64_t lane = tile_row % 8 * 4 + lane_of_row;
  return {.byte = row / kTileRows * layout.tile_bytes + chunk * layout.chunk_bytes + tile_row / 8 * 512 +
                  lane * 16 + byte_of_lane,
          .shift = shift};
}

std::int64_t scale_place_in_tiles(const TileLayout& layout, std::int64_t row, std::int64_t column) {
  const std::int64_t tile = row / kTileRows * layout.tile_bytes;
  const std::int64_t tile_row = row % kTileRows;
  const std::int64_t scales = tile + column / layout.chunk * layout.chunk_bytes + kChunkValueBytes;
  const std::int64_t group = column % layout.chunk / 32;
  switch (layout.type) {
    case NumberType::int4:
      return scales + tile_row * 2;
    case NumberType::int4_g32:
      return scales + (group * kTileRows + tile_row) * 2;
    case NumberType::mxfp4:
      return scales + group * kTileRows + tile_row;
    case NumberType::fp8:
      return scales;
    case NumberType::int8:
      return tile + layout.chunks * layout.chunk_bytes + tile_row * 4;
    default:
      return -1;
  }
}

}  // namespace moetune
