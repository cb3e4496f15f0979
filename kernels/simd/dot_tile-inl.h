// Products of a few weight rows with a few tokens, all sums in registers: the loops in which the time is
// spent. Start at LinearTile::run(). Four rows at once keep four independent chains of multiply-adds going
// and share each load of x; the tokens of a tile share the decoding of the weights. Included once per
// instruction set, as decode-inl.h is.
#if defined(MOETUNE_KERNELS_SIMD_DOT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOETUNE_KERNELS_SIMD_DOT_TILE_INL_H_
#undef MOETUNE_KERNELS_SIMD_DOT_TILE_INL_H_
#else
#define MOETUNE_KERNELS_SIMD_DOT_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/number_convert.h"
#include "kernels/simd/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {

inline constexpr std::int64_t kTileRows = 4;
// As many sums as there are registers for: 32 with AVX-512, otherwise 16.
inline constexpr std::int64_t kTileTokens = kLanes >= 16 ? 4 : 2;
inline constexpr std::int64_t kLineBytes = 64;

// A tile's results before scale, bias and y; the same code finishes them for all shapes of tile.
struct Sums {
  float of[kTileTokens][kTileRows];
};

// The rows of a tile. Missing rows at the end of a matrix repeat the last one and are not written.
struct TileRows {
  const std::byte* values[kTileRows];
  const std::byte* scales[kTileRows];
};

template <std::int64_t kTokens>
HWY_INLINE void start(Vector (&sums)[kTokens][kTileRows]) {
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kTokens; ++t)
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < kTileRows; ++r) sums[t][r] = hn::Zero(Floats());
}

#if HWY_TARGET != HWY_SCALAR
using Quad = hn::Full128<float>;

// The sums of all lanes that are equal modulo 4.
HWY_INLINE hn::Vec<Quad> fold_to_quad(Vector sums) {
#if HWY_TARGET == HWY_AVX3
  const hn::Half<Floats> half;
  const auto folded = hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums));
  return hn::Add(hn::LowerHalf(Quad(), folded), hn::UpperHalf(Quad(), folded));
#elif HWY_TARGET == HWY_AVX2
  return hn::Add(hn::LowerHalf(Quad(), sums), hn::UpperHalf(Quad(), sums));
#else
  return sums;
#endif
}

// The sums over the lanes of four vectors at once: short rows spend as much time here as in their products.
HWY_INLINE void sum_lanes(const Vector (&sums)[kTileRows], float (&totals)[kTileRows]) {
  const Quad quad;
  const auto a = fold_to_quad(sums[0]);
  const auto b = fold_to_quad(sums[1]);
  const auto c = fold_to_quad(sums[2]);
  const auto d = fold_to_quad(sums[3]);
  const auto ab = hn::Add(hn::InterleaveLower(quad, a, b), hn::InterleaveUpper(quad, a, b));
  const auto cd = hn::Add(hn::InterleaveLower(quad, c, d), hn::InterleaveUpper(quad, c, d));
  hn::StoreU(hn::Add(hn::ConcatLowerLower(quad, cd, ab), hn::ConcatUpperUpper(quad, cd, ab)), quad, totals);
}
#else
HWY_INLINE void sum_lanes(const Vector (&sums)[kTileRows], float (&totals)[kTileRows]) {
  for (std::int64_t r = 0; r < kTileRows; ++r) totals[r] = hn::GetLane(sums[r]);
}
#endif

template <std::int64_t kTokens>
HWY_INLINE void finish(const Vector (&sums)[kTokens][kTileRows], Sums& results) {
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kTokens; ++t) sum_lanes(sums[t], results.of[t]);
}

// While a tile is computed, the rows behind it are on their way. The processor's own prefetching starts anew
// with every row, and rows are short: without this, int8 came from memory at 7.6 GB/s where one core can
// read 14. Five rows ahead was the fastest of 3 to 16 for every type (int8 13.0 GB/s, int4 11.1; 10.6 and 9.1
// at three, 12.8 and 9.5 at four, where int4 rows of 1 KiB fall onto the cache sets of the tile itself).
HWY_INLINE void prefetch(const TileRows& rows, std::int64_t offset) {
  const std::int64_t ahead = 5 * (rows.values[1] - rows.values[0]);
#pragma GCC unroll 16
  for (std::int64_t r = 0; r < kTileRows; ++r) __builtin_prefetch(rows.values[r] + ahead + offset);
}

template <class Decode, std::int64_t kTokens>
HWY_INLINE void add_vector(const TileRows& rows, const float* const* x, std::int64_t i,
                           Vector (&sums)[kTokens][kTileRows]) {
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

// kTileRows rows by kTokens tokens, of a type whose elements follow one another.
template <class Decode>
struct LinearTile {
  template <std::int64_t kTokens>
  static HWY_INLINE void run(const TileRows& rows, const float* const* x, std::int64_t in, Sums& results) {
    Vector sums[kTokens][kTileRows];
    start(sums);
    std::int64_t i = 0;
    constexpr std::int64_t kPerLine = kLineBytes / Decode::kBytes;
    for (; i + kPerLine <= in; i += kPerLine) {
      prefetch(rows, i * Decode::kBytes);
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kPerLine; j += kLanes) add_vector<Decode>(rows, x, i + j, sums);
    }
    for (; i + kLanes <= in; i += kLanes) add_vector<Decode>(rows, x, i, sums);
    if (i < in) {
      for (std::int64_t t = 0; t < kTokens; ++t) {
        const Vector activations = load_some<DecodeF32>(reinterpret_cast<const std::byte*>(x[t] + i), in - i);
        for (std::int64_t r = 0; r < kTileRows; ++r)
          sums[t][r] = hn::MulAdd(load_some<Decode>(rows.values[r] + i * Decode::kBytes, in - i), activations,
                                  sums[t][r]);
      }
    }
    finish(sums, results);
  }
};

// The last elements of a row, zeros behind them.
HWY_INLINE const float* pad(const float* from, std::int64_t count, float (&padded)[kInt4Block]) {
  std::fill(std::copy_n(from, count, padded), padded + kInt4Block, 0.0F);
  return padded;
}

template <class Decode, std::int64_t kTokens>
HWY_INLINE void add_block(const Decode& decode, const std::byte* block, std::int64_t row,
                          const float* const (&activations)[kTokens], Vector (&sums)[kTokens][kTileRows]) {
  Vector w[kVectorsPerBlock];
  decode.load(block, w);
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kTokens; ++t)
#pragma GCC unroll 16
    for (std::int64_t v = 0; v < kVectorsPerBlock; ++v)
      sums[t][row] = hn::MulAdd(w[v], hn::LoadU(Floats(), activations[t] + v * kLanes), sums[t][row]);
}

// The same for four bits: blocks of 32, Scales::kGroup elements to a scale. Adds in the order of LinearTile,
// so that a panel decoded from them gives the same bits.
template <class Decode, class Scales>
struct FourBitTile {
  template <std::int64_t kTokens>
  static HWY_INLINE void run(const TileRows& rows, const float* const* x, std::int64_t in, Sums& results) {
    constexpr std::int64_t kPerLine = 128;
    constexpr std::int64_t kGroup = Scales::kGroup;
    constexpr std::int64_t kScalesPerLine = kPerLine / kGroup;
    Vector sums[kTokens][kTileRows];
    start(sums);
    std::int64_t i = 0;
    for (; i + kPerLine <= in; i += kPerLine) {
      prefetch(rows, i / 2);
      alignas(16) float scales[kTileRows][kScalesPerLine];
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kTileRows; ++r)
        Scales::load(rows.scales[r] + i / kGroup * Scales::kBytes, scales[r]);
#pragma GCC unroll 4
      for (std::int64_t group = 0; group < kScalesPerLine; ++group) {
        const Decode decode[kTileRows] = {Decode(scales[0][group]), Decode(scales[1][group]),
                                          Decode(scales[2][group]), Decode(scales[3][group])};
#pragma GCC unroll 4
        for (std::int64_t block = 0; block < kGroup; block += kInt4Block) {
          const std::int64_t at = i + group * kGroup + block;
          const float* activations[kTokens];
#pragma GCC unroll 16
          for (std::int64_t t = 0; t < kTokens; ++t) activations[t] = x[t] + at;
#pragma GCC unroll 16
          for (std::int64_t r = 0; r < kTileRows; ++r)
            add_block(decode[r], rows.values[r] + at / 2, r, activations, sums);
        }
      }
    }
    for (; i < in; i += kGroup) {  // what does not fill a line
      float scales[kTileRows][1];
      for (std::int64_t r = 0; r < kTileRows; ++r)
        Scales::load(rows.scales[r] + i / kGroup * Scales::kBytes, scales[r]);
      const Decode decode[kTileRows] = {Decode(scales[0][0]), Decode(scales[1][0]), Decode(scales[2][0]),
                                        Decode(scales[3][0])};
      for (std::int64_t at = i; at < std::min(i + kGroup, in); at += kInt4Block) {
        alignas(64) float padded[kTokens][kInt4Block];
        const float* activations[kTokens];
        for (std::int64_t t = 0; t < kTokens; ++t) activations[t] = x[t] + at;
        if (at + kInt4Block > in)
          for (std::int64_t t = 0; t < kTokens; ++t) activations[t] = pad(x[t] + at, in - at, padded[t]);
#pragma GCC unroll 16
        for (std::int64_t r = 0; r < kTileRows; ++r)
          add_block(decode[r], rows.values[r] + at / 2, r, activations, sums);
      }
    }
    finish(sums, results);
  }
};

template <std::int64_t kGroupOfScale>
struct F16Scales {
  static constexpr std::int64_t kGroup = kGroupOfScale;
  static constexpr std::int64_t kBytes = 2;
  template <std::int64_t kCount>
  static HWY_INLINE void load(const std::byte* from, float (&scales)[kCount]) {
    load_f16_scales(from, scales);
  }
};

struct E8m0Scales {
  static constexpr std::int64_t kGroup = 32;
  static constexpr std::int64_t kBytes = 1;
  template <std::int64_t kCount>
  static HWY_INLINE void load(const std::byte* from, float (&scales)[kCount]) {
    for (std::int64_t i = 0; i < kCount; ++i)
      scales[i] = f32_from_e8m0(std::to_integer<std::uint8_t>(from[i]));
  }
};

// fp8: 128 elements to an f32 scale. A row's scales are those of its block of 128 rows.
struct Fp8Tile {
  static constexpr std::int64_t kGroup = 128;

  template <std::int64_t kTokens>
  static HWY_INLINE void run(const TileRows& rows, const float* const* x, std::int64_t in, Sums& results) {
    Vector sums[kTokens][kTileRows];
    start(sums);
    for (std::int64_t begin = 0; begin < in; begin += kGroup) {
      const std::int64_t end = std::min(begin + kGroup, in);
      Vector factors[kTileRows];
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kTileRows; ++r)
        factors[r] = hn::Set(Floats(), f32_scale(rows.scales[r] + begin / kGroup * 4) * DecodeFp8::kLacks);
      prefetch(rows, begin);
      prefetch(rows, begin + kLineBytes);
      std::int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) {
        Vector w[kTileRows];
#pragma GCC unroll 16
        for (std::int64_t r = 0; r < kTileRows; ++r)
          w[r] = hn::Mul(DecodeFp8::load(rows.values[r] + i), factors[r]);
#pragma GCC unroll 16
        for (std::int64_t t = 0; t < kTokens; ++t) {
          const Vector activations = hn::LoadU(Floats(), x[t] + i);
#pragma GCC unroll 16
          for (std::int64_t r = 0; r < kTileRows; ++r) sums[t][r] = hn::MulAdd(w[r], activations, sums[t][r]);
        }
      }
      if (i == end) continue;
      for (std::int64_t t = 0; t < kTokens; ++t) {
        const Vector activations =
            load_some<DecodeF32>(reinterpret_cast<const std::byte*>(x[t] + i), end - i);
        for (std::int64_t r = 0; r < kTileRows; ++r)
          sums[t][r] = hn::MulAdd(hn::Mul(load_some<DecodeFp8>(rows.values[r] + i, end - i), factors[r]),
                                  activations, sums[t][r]);
      }
    }
    finish(sums, results);
  }
};

}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
