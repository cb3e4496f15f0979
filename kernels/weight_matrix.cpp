#include "kernels/weight_matrix.h"

#include <cassert>
#include <stdexcept>
#include <string>

#include "kernels/tile_layout.h"

namespace moetune {
namespace {
constexpr std::int64_t kRowAlignment = 16;
constexpr std::int64_t kMatrixAlignment = 64;  // a cache line, and the longest SIMD register
constexpr std::int64_t kPackedBlock = 32;      // elements of an int4 block: 16 bytes

std::int64_t ceil_div(std::int64_t amount, std::int64_t unit) { return (amount + unit - 1) / unit; }
std::int64_t round_up(std::int64_t amount, std::int64_t unit) { return ceil_div(amount, unit) * unit; }

void set_values(MatrixLayout& layout) {
  switch (layout.type) {
    case NumberType::f32:
      layout.row_bytes = layout.in * 4;
      break;
    case NumberType::f16:
    case NumberType::bf16:
      layout.row_bytes = layout.in * 2;
      break;
    case NumberType::int8:
    case NumberType::fp8:
      layout.row_bytes = layout.in;
      break;
    case NumberType::int4:
    case NumberType::int4_g32:
    case NumberType::mxfp4:
      layout.row_bytes = ceil_div(layout.in, kPackedBlock) * (kPackedBlock / 2);
      break;
    case NumberType::i32:
      throw std::invalid_argument("a weight matrix cannot be stored as " + std::string(name_of(layout.type)) +
                                  " (accepted: f32, f16, bf16, fp8, int8, int4, int4_g32, mxfp4)");
  }
  layout.row_bytes = round_up(layout.row_bytes, kRowAlignment);
}

void set_scales(MatrixLayout& layout) {
  if (layout.type == NumberType::int8) {
    layout.scales_per_row = 1;
    layout.scale_bytes = 4;
  } else if (const int group = quantization_group(layout.type); group > 0) {
    layout.scales_per_row = ceil_div(layout.in, group);
    layout.scale_bytes = layout.type == NumberType::fp8 ? 4 : layout.type == NumberType::mxfp4 ? 1 : 2;
  }
}
}  // namespace

MatrixLayout MatrixLayout::of(NumberType type, std::int64_t out, std::int64_t in, Packing packing) {
  assert(out >= 0 && in >= 0);
  MatrixLayout layout;
  layout.type = type;
  layout.out = out;
  layout.in = in;
  if (packing == Packing::tiles && type != NumberType::f32) {
    layout.packing = Packing::tiles;
    layout.bytes = TileLayout::of(type, out, in).bytes;
    return layout;
  }
  set_values(layout);
  set_scales(layout);
  layout.scales_offset = out * layout.row_bytes;
  layout.bytes =
      round_up(layout.scales_offset + out * layout.scales_per_row * layout.scale_bytes, kMatrixAlignment);
  return layout;
}

ExpertLayout ExpertLayout::of(NumberType type, std::int64_t hidden, std::int64_t inner, Packing packing) {
  ExpertLayout layout;
  layout.gate = MatrixLayout::of(type, inner, hidden, packing);
  layout.up = MatrixLayout::of(type, inner, hidden, packing);
  layout.down = MatrixLayout::of(type, hidden, inner, packing);
  layout.up_offset = layout.gate.bytes;
  layout.down_offset = layout.up_offset + layout.up.bytes;
  layout.bytes = layout.down_offset + layout.down.bytes;
  return layout;
}

}  // namespace moetune
