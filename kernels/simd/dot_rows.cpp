// Start at dot_rows() at the end; DotTile is the loop in which the time is spent.
//
// Four rows at once keep four independent chains of multiply-adds running and share each load of x. Up to kTileTokens
// tokens share the decoding of the weights in registers; with more of them the rows are decoded once into a panel that
// stays in the L2 cache.
#include "kernels/simd/dot_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/dot_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kTileRows = 4;
// As many sums as there are registers for: 32 with AVX-512, otherwise 16.
constexpr std::int64_t kTileTokens = kLanes >= 16 ? 4 : 2;
constexpr std::int64_t kPanelBytes = 256 * 1024;  // leaves half of a 512 KiB L2 cache to x and y

// A tile's results before scale, bias and y; the same code finishes them for all shapes of tile.
struct Sums {
  float of[kTileTokens][kTileRows];
};

// The rows of a tile. Missing rows at the end of a matrix repeat the last one and are not written.
struct TileRows {
  const std::byte* values[kTileRows];
  const std::byte* scales[kTileRows];
};

float int8_scale(const std::byte* from) {
  float scale;
  std::memcpy(&scale, from, sizeof(scale));
  return scale;
}

TileRows rows_of(const WeightMatrix& w, std::int64_t first, std::int64_t end) {
  TileRows rows;
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    const std::int64_t row = std::min(first + r, end - 1);
    rows.values[r] = w.row_values(row);
    rows.scales[r] = w.row_scales(row);
  }
  return rows;
}

template <std::int64_t kTokens>
HWY_INLINE void start(Vector (&sums)[kTokens][kTileRows]) {
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kTokens; ++t)
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < kTileRows; ++r) sums[t][r] = hn::Zero(Floats());
}

template <std::int64_t kTokens>
HWY_INLINE void finish(const Vector (&sums)[kTokens][kTileRows], Sums& results) {
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kTokens; ++t)
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < kTileRows; ++r) results.of[t][r] = hn::GetLane(hn::SumOfLanes(Floats(), sums[t][r]));
}

// kTileRows rows by kTokens tokens of a type whose elements follow one another.
template <class Decode, std::int64_t kTokens>
void dot_tile(const TileRows& rows, const float* const* x, std::int64_t in, Sums& results) {
  Vector sums[kTokens][kTileRows];
  start(sums);
  std::int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) {
    Vector w[kTileRows];
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < kTileRows; ++r) w[r] = Decode::load(rows.values[r] + i * Decode::kBytes);
#pragma GCC unroll 16
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const Vector activations = hn::LoadU(Floats(), x[t] + i);
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kTileRows; ++r) sums[t][r] = hn::MulAdd(w[r], activations, sums[t][r]);
    }
  }
  if (i < in) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const Vector activations = load_some<DecodeF32>(reinterpret_cast<const std::byte*>(x[t] + i), in - i);
      for (std::int64_t r = 0; r < kTileRows; ++r)
        sums[t][r] = hn::MulAdd(load_some<Decode>(rows.values[r] + i * Decode::kBytes, in - i), activations, sums[t][r]);
    }
  }
  finish(sums, results);
}

// The same for int4: blocks of 32, `group` elements to a scale. Adds in the order of dot_tile, so that a panel decoded
// from int4 gives the same bits.
template <std::int64_t kTokens>
void dot_tile_int4(const TileRows& rows, std::int64_t group, const float* const* x, std::int64_t in, Sums& results) {
  Vector sums[kTokens][kTileRows];
  start(sums);
  alignas(64) float last_block[kTokens][kInt4Block] = {};  // of x, padded with zeros
  const std::int64_t whole = in / kInt4Block * kInt4Block;
  if (whole < in)
    for (std::int64_t t = 0; t < kTokens; ++t)
      std::memcpy(last_block[t], x[t] + whole, static_cast<std::size_t>(in - whole) * sizeof(float));

  for (std::int64_t begin = 0, scale = 0; begin < in; begin += group, scale += 2) {
    const std::int64_t end = std::min(begin + group, in);
    const DecodeInt4 decode[kTileRows] = {DecodeInt4(rows.scales[0] + scale), DecodeInt4(rows.scales[1] + scale),
                                          DecodeInt4(rows.scales[2] + scale), DecodeInt4(rows.scales[3] + scale)};
    for (std::int64_t block = begin; block < end; block += kInt4Block) {
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kTileRows; ++r) {
        Vector w[kVectorsPerBlock];
        decode[r].load(rows.values[r] + block / 2, w);
#pragma GCC unroll 16
        for (std::int64_t t = 0; t < kTokens; ++t) {
          const float* activations = block < whole ? x[t] + block : last_block[t];
#pragma GCC unroll 16
          for (std::int64_t v = 0; v < kVectorsPerBlock; ++v)
            sums[t][r] = hn::MulAdd(w[v], hn::LoadU(Floats(), activations + v * kLanes), sums[t][r]);
        }
      }
    }
  }
  finish(sums, results);
}

template <std::int64_t kTokens>
void dot_tile_of_type(NumberType type, const TileRows& rows, const float* const* x, std::int64_t in, Sums& results) {
  switch (type) {
    case NumberType::f32: return dot_tile<DecodeF32, kTokens>(rows, x, in, results);
    case NumberType::f16: return dot_tile<DecodeF16, kTokens>(rows, x, in, results);
    case NumberType::bf16: return dot_tile<DecodeBf16, kTokens>(rows, x, in, results);
    case NumberType::int8: return dot_tile<DecodeInt8, kTokens>(rows, x, in, results);
    default: return dot_tile_int4<kTokens>(rows, quantization_group(type), x, in, results);
  }
}

// Any number of tokens up to kTileTokens.
void dot_tile_of(NumberType type, const TileRows& rows, const float* const* x, std::int64_t tokens, std::int64_t in,
                 Sums& results) {
  if (tokens == 1) return dot_tile_of_type<1>(type, rows, x, in, results);
  if (tokens == 2) return dot_tile_of_type<2>(type, rows, x, in, results);
  if constexpr (kTileTokens > 2) {
    if (tokens == 3) return dot_tile_of_type<3>(type, rows, x, in, results);
    return dot_tile_of_type<4>(type, rows, x, in, results);
  }
}

void write(const DotRows& work, std::int64_t row, std::int64_t rows, std::int64_t token, std::int64_t tokens,
           const Sums& sums) {
  const bool scaled = work.w.layout.type == NumberType::int8;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scale = scaled ? int8_scale(work.w.row_scales(row + r)) : 1.0F;
    for (std::int64_t t = 0; t < tokens; ++t) {
      float sum = sums.of[t][r] * scale;
      if (work.bias != nullptr) sum += work.bias[row + r];
      float& y = work.y[token + t][row + r];
      y = work.accumulate ? y + sum : sum;
    }
  }
}

// Rows as floats, one after the other, int8 without its scale: what dot_tile makes of them in registers.
template <class Decode>
void decode_row(const std::byte* from, std::int64_t in, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) hn::StoreU(Decode::load(from + i * Decode::kBytes), Floats(), to + i);
  if (i == in) return;
  alignas(64) float rest[kLanes];
  hn::Store(load_some<Decode>(from + i * Decode::kBytes, in - i), Floats(), rest);
  std::memcpy(to + i, rest, static_cast<std::size_t>(in - i) * sizeof(float));
}

void decode_int4_row(const std::byte* from, const std::byte* scales, std::int64_t group, std::int64_t in, float* to) {
  for (std::int64_t begin = 0; begin < in; begin += kInt4Block) {
    Vector elements[kVectorsPerBlock];
    DecodeInt4(scales + begin / group * 2).load(from + begin / 2, elements);
    alignas(64) float block[kInt4Block];
    for (std::int64_t v = 0; v < kVectorsPerBlock; ++v) hn::Store(elements[v], Floats(), block + v * kLanes);
    std::memcpy(to + begin, block, static_cast<std::size_t>(std::min(kInt4Block, in - begin)) * sizeof(float));
  }
}

void decode_panel_row(const WeightMatrix& w, std::int64_t row, float* to) {
  const std::byte* from = w.row_values(row);
  const std::int64_t in = w.layout.in;
  switch (w.layout.type) {
    case NumberType::f16: return decode_row<DecodeF16>(from, in, to);
    case NumberType::bf16: return decode_row<DecodeBf16>(from, in, to);
    case NumberType::int8: return decode_row<DecodeInt8>(from, in, to);
    default: return decode_int4_row(from, w.row_scales(row), quantization_group(w.layout.type), in, to);
  }
}

// Few tokens: straight from the stored weights.
void dot_few(const DotRows& work) {
  Sums sums;
  for (std::int64_t row = work.row_begin; row < work.row_end; row += kTileRows) {
    const TileRows rows = rows_of(work.w, row, work.row_end);
    dot_tile_of(work.w.layout.type, rows, work.x, work.tokens, work.w.layout.in, sums);
    write(work, row, std::min(kTileRows, work.row_end - row), 0, work.tokens, sums);
  }
}

// Many tokens: panel by panel, and inside one every four tokens by all its rows, so that those tokens stay in L1.
void dot_many(const DotRows& work) {
  const std::int64_t in = work.w.layout.in;
  const std::int64_t fitting = kPanelBytes / static_cast<std::int64_t>(sizeof(float)) / std::max<std::int64_t>(in, 1);
  const std::int64_t panel_rows = std::max(kTileRows, fitting / kTileRows * kTileRows);
  const bool decoded = work.w.layout.type != NumberType::f32;
  thread_local std::vector<float> panel;
  if (decoded) panel.resize(static_cast<std::size_t>(std::min(panel_rows, work.row_end - work.row_begin) * in));

  Sums sums;
  for (std::int64_t begin = work.row_begin; begin < work.row_end; begin += panel_rows) {
    const std::int64_t end = std::min(begin + panel_rows, work.row_end);
    if (decoded)
      for (std::int64_t row = begin; row < end; ++row) decode_panel_row(work.w, row, panel.data() + (row - begin) * in);
    for (std::int64_t token = 0; token < work.tokens; token += kTileTokens) {
      const std::int64_t tokens = std::min(kTileTokens, work.tokens - token);
      for (std::int64_t row = begin; row < end; row += kTileRows) {
        TileRows rows = rows_of(work.w, row, end);
        if (decoded)
          for (std::int64_t r = 0; r < kTileRows; ++r)
            rows.values[r] = reinterpret_cast<const std::byte*>(panel.data() + (std::min(row + r, end - 1) - begin) * in);
        dot_tile_of(NumberType::f32, rows, work.x + token, tokens, in, sums);
        write(work, row, std::min(kTileRows, end - row), token, tokens, sums);
      }
    }
  }
}

void dot_rows(const DotRows& work) {
  if (work.tokens <= kTileTokens)
    dot_few(work);
  else
    dot_many(work);
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
    case NumberType::int4_g32: break;
    default:
      throw std::invalid_argument("no matrix product with weights stored as " +
                                  std::string(name_of(work.w.layout.type)));
  }
  if (work.tokens <= 0 || work.row_begin >= work.row_end) return;
  HWY_DYNAMIC_DISPATCH(dot_rows)(work);
}

}  // namespace moetune
#endif  // HWY_ONCE
