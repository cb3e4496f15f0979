#include "kernels/tile_packing.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "kernels/tile_layout.h"

namespace moetune {
namespace {

constexpr std::int64_t kBlock =
    32;  // of an int4 row: element i in the low, i + 16 in the high nibble of byte i

int nibble_of(const std::byte* row, std::int64_t column) {
  const auto byte = std::to_integer<unsigned>(row[column / kBlock * (kBlock / 2) + column % 16]);
  return static_cast<int>(column % kBlock < 16 ? byte & 0xFU : byte >> 4);
}

class TilePacker {
 public:
  TilePacker(const WeightMatrix& from, const TileLayout& layout, std::byte* to)
      : from_(from), layout_(layout), to_(to) {}

  void pack(std::int64_t tile) const {
    std::byte* at = to_ + tile * layout_.tile_bytes;
    std::memset(at, 0, static_cast<std::size_t>(layout_.tile_bytes));
    const bool is_packed = layout_.chunk == 128;
    // An int4 nibble stands for value + 8: zero is not the zero byte.
    if (is_packed && layout_.type != NumberType::mxfp4)
      for (std::int64_t chunk = 0; chunk < layout_.chunks; ++chunk)
        std::memset(at + chunk * layout_.chunk_bytes, 0x88, 1024);
    const std::int64_t end = std::min(layout_.out, (tile + 1) * kTileRows);
    for (std::int64_t row = tile * kTileRows; row < end; ++row) {
      if (is_packed)
        pack_nibbles(row);
      else
        pack_bytes(row);
      pack_scales(row);
    }
  }

 private:
  const std::byte* row_of(std::int64_t row) const {
    return static_cast<const std::byte*>(from_.data) + row * from_.layout.row_bytes;
  }

  // Elements of a byte or two lie in the same order in both: a lane's 16 bytes at a time.
  void pack_bytes(std::int64_t row) const {
    const std::int64_t each = layout_.chunk / 4;  // elements of a lane
    const std::int64_t width = 16 / each;
    for (std::int64_t column = 0; column < layout_.in; column += each) {
      const auto bytes = static_cast<std::size_t>(std::min(each, layout_.in - column) * width);
      std::memcpy(to_ + place_in_tiles(layout_, row, column).byte, row_of(row) + column * width, bytes);
    }
  }

  void pack_nibbles(std::int64_t row) const {
    for (std::int64_t column = 0; column < layout_.in; ++column) {
      const TilePlace place = place_in_tiles(layout_, row, column);
      std::byte& byte = to_[place.byte];
      byte = (byte & std::byte{static_cast<unsigned char>(0xFU << (4 - place.shift))}) |
             std::byte{static_cast<unsigned char>(nibble_of(row_of(row), column) << place.shift)};
    }
  }

  void pack_scales(std::int64_t row) const {
    const MatrixLayout& rows = from_.layout;
    if (rows.scales_per_row == 0) return;
    const std::byte* scales = static_cast<const std::byte*>(from_.data) + rows.scales_offset +
                              row * rows.scales_per_row * rows.scale_bytes;
    const std::int64_t group = rows.scales_per_row == 1 && layout_.type == NumberType::int8
                                   ? layout_.in
                                   : quantization_group(layout_.type);
    if (layout_.type == NumberType::fp8) {  // a chunk is narrower than a block: each gets its block's scale
      for (std::int64_t column = 0; column < layout_.in; column += layout_.chunk)
        std::memcpy(to_ + scale_place_in_tiles(layout_, row, column),
                    scales + column / group * rows.scale_bytes, static_cast<std::size_t>(rows.scale_bytes));
      return;
    }
    for (std::int64_t index = 0; index < rows.scales_per_row; ++index)
      std::memcpy(to_ + scale_place_in_tiles(layout_, row, index * group), scales + index * rows.scale_bytes,
                  static_cast<std::size_t>(rows.scale_bytes));
  }

  WeightMatrix from_;
  TileLayout layout_;
  std::byte* to_;
};

}  // namespace

void pack_tiles(Cpu& cpu, const WeightMatrix& from, void* to) {
  assert(from.layout.packing == Packing::rows);
  const TileLayout layout = TileLayout::of(from.layout.type, from.layout.out, from.layout.in);
  const TilePacker packer(from, layout, static_cast<std::byte*>(to));
  cpu.pool().parallel_for(layout.tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) packer.pack(tile);
  });
}

}  // namespace moetune
