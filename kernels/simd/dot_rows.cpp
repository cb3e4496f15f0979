// Start at dot_rows() at the end. Few tokens share the decoding of the weights in registers; for more the
// rows are decoded once into a panel that stays in the L2 cache. The loops themselves are in dot_tile-inl.h.
#include "kernels/simd/dot_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/dot_rows.cpp"
#include "hwy/foreach_target.h"

// Only after foreach_target.h, which compiles this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/simd/dot_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kPanelBytes = 256 * 1024;  // leaves half of a 512 KiB L2 cache to x and y

HWY_INLINE TileRows rows_of(const WeightMatrix& w, std::int64_t first, std::int64_t end) {
  TileRows rows;
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    const std::int64_t row = std::min(first + r, end - 1);
    rows.values[r] = w.row_values(row);
    rows.scales[r] = w.row_scales(row);
  }
  return rows;
}

// Scale, bias, and into y. The order of these operations is the same for every shape of tile.
HWY_INLINE void write(const DotRows& work, std::int64_t row, std::int64_t rows, std::int64_t token,
                      std::int64_t tokens, Sums& sums) {
  if (work.w.layout.type == NumberType::int8)
    for (std::int64_t r = 0; r < rows; ++r) {
      const float scale = f32_scale(work.w.row_scales(row + r));
      for (std::int64_t t = 0; t < tokens; ++t) sums.of[t][r] *= scale;
    }
  for (std::int64_t t = 0; t < tokens; ++t) {
    float* y = work.y[token + t] + row;
    if (work.bias != nullptr)
      for (std::int64_t r = 0; r < rows; ++r) sums.of[t][r] += work.bias[row + r];
    if (work.accumulate)
      for (std::int64_t r = 0; r < rows; ++r) sums.of[t][r] += y[r];
    if (rows == kTileRows)
      std::memcpy(y, sums.of[t], sizeof(sums.of[t]));
    else
      std::copy_n(sums.of[t], rows, y);
  }
}

// Rows [row_begin, row_end) of the work by kTokens tokens from `token` on. The rows are those of `source`
// from source_begin on: the stored weights themselves, or a panel.
template <class Tile, std::int64_t kTokens>
void dot_block(const DotRows& work, const WeightMatrix& source, std::int64_t source_begin,
               std::int64_t row_begin, std::int64_t row_end, std::int64_t token) {
  Sums sums;
  for (std::int64_t row = row_begin; row < row_end; row += kTileRows) {
    const TileRows rows = rows_of(source, source_begin + row - row_begin, source_begin + row_end - row_begin);
    Tile::template run<kTokens>(rows, work.x + token, work.w.layout.in, sums);
    write(work, row, std::min(kTileRows, row_end - row), token, kTokens, sums);
  }
}

// The same for any number of tokens up to kTileTokens.
template <class Tile>
void dot_block(const DotRows& work, const WeightMatrix& source, std::int64_t source_begin,
               std::int64_t row_begin, std::int64_t row_end, std::int64_t token, std::int64_t tokens) {
  if (tokens == 1) return dot_block<Tile, 1>(work, source, source_begin, row_begin, row_end, token);
  if (tokens == 2) return dot_block<Tile, 2>(work, source, source_begin, row_begin, row_end, token);
  if constexpr (kTileTokens > 2) {
    if (tokens == 3) return dot_block<Tile, 3>(work, source, source_begin, row_begin, row_end, token);
    return dot_block<Tile, 4>(work, source, source_begin, row_begin, row_end, token);
  }
}

template <class Tile>
void dot_few(const DotRows& work) {
  dot_block<Tile>(work, work.w, work.row_begin, work.row_begin, work.row_end, 0, work.tokens);
}

// Rows as floats, one after the other, int8 without its scale: what dot_tile makes of them in registers.
template <class Decode>
void decode_row(const std::byte* from, std::int64_t in, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) hn::StoreU(Decode::load(from + i * Decode::kBytes), Floats(), to + i);
  if (i < in) store_some(load_some<Decode>(from + i * Decode::kBytes, in - i), to + i, in - i);
}

template <class Decode, class Scales>
void decode_four_bit_row(const std::byte* from, const std::byte* scales, std::int64_t in, float* to) {
  for (std::int64_t begin = 0; begin < in; begin += kInt4Block) {
    float scale[1];
    Scales::load(scales + begin / Scales::kGroup * Scales::kBytes, scale);
    Vector elements[kVectorsPerBlock];
    Decode(scale[0]).load(from + begin / 2, elements);
    alignas(64) float block[kInt4Block];
    for (std::int64_t v = 0; v < kVectorsPerBlock; ++v) hn::Store(elements[v], Floats(), block + v * kLanes);
    std::memcpy(to + begin, block,
                static_cast<std::size_t>(std::min(kInt4Block, in - begin)) * sizeof(float));
  }
}

void decode_fp8_row(const std::byte* from, const std::byte* scales, std::int64_t in, float* to) {
  const std::int64_t group = quantization_group(NumberType::fp8);
  for (std::int64_t begin = 0; begin < in; begin += group, scales += sizeof(float)) {
    const std::int64_t count = std::min(group, in - begin);
    decode_row<DecodeFp8>(from + begin, count, to + begin);
    const Vector factor = hn::Set(Floats(), f32_scale(scales) * DecodeFp8::kLacks);
    std::int64_t i = begin;
    for (; i + kLanes <= begin + count; i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(Floats(), to + i), factor), Floats(), to + i);
    for (; i < begin + count; ++i) to[i] *= hn::GetLane(factor);
  }
}

void decode_panel_row(const WeightMatrix& w, std::int64_t row, float* to) {
  const std::byte* from = w.row_values(row);
  const std::int64_t in = w.layout.in;
  switch (w.layout.type) {
    case NumberType::f16:
      return decode_row<DecodeF16>(from, in, to);
    case NumberType::bf16:
      return decode_row<DecodeBf16>(from, in, to);
    case NumberType::int8:
      return decode_row<DecodeInt8>(from, in, to);
    case NumberType::fp8:
      return decode_fp8_row(from, w.row_scales(row), in, to);
    case NumberType::mxfp4:
      return decode_four_bit_row<DecodeMxfp4, E8m0Scales>(from, w.row_scales(row), in, to);
    case NumberType::int4:
      return decode_four_bit_row<DecodeInt4, F16Scales<128>>(from, w.row_scales(row), in, to);
    default:
      return decode_four_bit_row<DecodeInt4, F16Scales<32>>(from, w.row_scales(row), in, to);
  }
}

// Panel by panel, and inside one every few tokens by all its rows, so that those tokens stay in L1.
void dot_many(const DotRows& work) {
  const std::int64_t in = work.w.layout.in;
  const std::int64_t row_bytes = in * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t fitting = kPanelBytes / std::max<std::int64_t>(row_bytes, 1);
  const std::int64_t panel_rows = std::max(kTileRows, fitting / kTileRows * kTileRows);
  const bool decoded = work.w.layout.type != NumberType::f32;
  thread_local std::vector<float> panel;
  if (decoded)
    panel.resize(static_cast<std::size_t>(std::min(panel_rows, work.row_end - work.row_begin) * in));

  for (std::int64_t begin = work.row_begin; begin < work.row_end; begin += panel_rows) {
    const std::int64_t end = std::min(begin + panel_rows, work.row_end);
    WeightMatrix source = work.w;
    if (decoded) {
      for (std::int64_t row = begin; row < end; ++row)
        decode_panel_row(work.w, row, panel.data() + (row - begin) * in);
      source.data = panel.data();
      source.layout.row_bytes = row_bytes;
    }
    for (std::int64_t token = 0; token < work.tokens; token += kTileTokens)
      dot_block<LinearTile<DecodeF32>>(work, source, decoded ? 0 : begin, begin, end, token,
                                       std::min(kTileTokens, work.tokens - token));
  }
}

void dot_rows(const DotRows& work) {
  if (work.tokens > kTileTokens) return dot_many(work);
  switch (work.w.layout.type) {
    case NumberType::f32:
      return dot_few<LinearTile<DecodeF32>>(work);
    case NumberType::f16:
      return dot_few<LinearTile<DecodeF16>>(work);
    case NumberType::bf16:
      return dot_few<LinearTile<DecodeBf16>>(work);
    case NumberType::int8:
      return dot_few<LinearTile<DecodeInt8>>(work);
    case NumberType::int4:
      return dot_few<FourBitTile<DecodeInt4, F16Scales<128>>>(work);
    case NumberType::fp8:
      return dot_few<Fp8Tile>(work);
    case NumberType::mxfp4:
      return dot_few<FourBitTile<DecodeMxfp4, E8m0Scales>>(work);
    default:
      return dot_few<FourBitTile<DecodeInt4, F16Scales<32>>>(work);
  }
}

}  // namespace
}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetune {
HWY_EXPORT(dot_rows);

void dot_rows(const DotRows& work) {
  switch (work.w.layout.type) {
    case NumberType::f32:
    case NumberType::f16:
    case NumberType::bf16:
    case NumberType::int8:
    case NumberType::int4:
    case NumberType::int4_g32:
    case NumberType::fp8:
    case NumberType::mxfp4:
      break;
    default:
      throw std::invalid_argument("no matrix product with weights stored as " +
                                  std::string(name_of(work.w.layout.type)));
  }
  if (work.tokens <= 0 || work.row_begin >= work.row_end) return;
  HWY_DYNAMIC_DISPATCH(dot_rows)(work);
}

}  // namespace moetune
#endif  // HWY_ONCE
