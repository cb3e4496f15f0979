// Start at run(): bands of rows are made as floats, quantized as any matrix is and put in their place; only a
// matrix in the type it ships in skips the quantizing. A draw has 1,021 values, so what each of them stands
// for is looked up (Levels).
#include "kernels/generate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/number_convert.h"
#include "kernels/quantize.h"
#include "kernels/simd/draw_row.h"
#include "kernels/tile_layout.h"
#include "kernels/tile_packing.h"

namespace moetune {
namespace {

constexpr int kDraws = 2 * kLargestDraw + 1;
constexpr std::int64_t kBandRows = 16;      // whole tiles
constexpr std::int64_t kFp8BandRows = 128;  // whole blocks of scales

// A band is work for one thread: bands run side by side.
Cpu& single_thread() {
  static Cpu cpu(1);
  return cpu;
}

// What every draw stands for, as a number and, for fp8 and mxfp4, as the bits that are stored.
struct Levels {
  std::array<float, kDraws> value{};
  std::array<std::uint8_t, kDraws> code{};

  explicit Levels(const NumberSource& source) {
    const float step = source.step();
    const float fp8_scale = shipped_fp8_scale(source);
    const float fp4_scale = f32_from_e8m0(shipped_mxfp4_scale(source));
    for (int i = 0; i < kDraws; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto draw = static_cast<float>(i - kLargestDraw);
      switch (source.shipped) {
        case NumberType::f32:
          value[at] = draw * step;
          break;
        case NumberType::f16:
          value[at] = f32_from_f16(f16_from_f32(draw * step));
          break;
        case NumberType::bf16:
          value[at] = f32_from_bf16(bf16_from_f32(draw * step));
          break;
        case NumberType::fp8:
          code[at] = fp8_from_f32(draw * (kLargestFp8 / static_cast<float>(kLargestDraw)));
          value[at] = f32_from_fp8(code[at]) * fp8_scale;
          break;
        case NumberType::mxfp4:
          code[at] = static_cast<std::uint8_t>(fp4_from_f32(draw * step / fp4_scale));
          value[at] = f32_from_fp4(code[at]) * fp4_scale;
          break;
        default:
          throw std::invalid_argument("no model ships in " + std::string(name_of(source.shipped)) +
                                      " (accepted: f32, f16, bf16, fp8, mxfp4)");
      }
    }
  }
};

std::span<std::uint32_t> drawn(const NumberSource& source, std::int64_t row, std::int64_t first_column,
                               std::size_t count) {
  thread_local std::vector<std::uint32_t> draws;
  draws.resize(count);
  draw_row(source.seed, source.layer, source.tensor, static_cast<std::uint32_t>(row), first_column, draws);
  return draws;
}

void make_row(const NumberSource& source, const Levels& levels, std::int64_t row, std::int64_t first_column,
              std::span<float> values) {
  const std::span<std::uint32_t> draws = drawn(source, row, first_column, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = levels.value[draws[i]];
}

// Rows [first, first + rows) of the part, in rows, as `band` says they lie.
class BandMaker {
 public:
  BandMaker(const Generate& op, const Levels& levels, std::int64_t first, const MatrixLayout& band,
            std::byte* to)
      : op_(op), levels_(levels), first_(first), band_(band), to_(to) {}

  void make() const {
    if (op_.source.shipped == band_.type && band_.type == NumberType::fp8) return ship_fp8();
    if (op_.source.shipped == band_.type && band_.type == NumberType::mxfp4) return ship_mxfp4();
    if (band_.type == NumberType::int8) return quantize(0, op_.in);
    quantize(op_.first_column, band_.in);
  }

 private:
  std::int64_t row_of_whole(std::int64_t row) const { return op_.first_row + first_ + row; }

  // Columns [first_column, first_column + count) of the whole matrix are quantized; the part's are kept.
  void quantize(std::int64_t first_column, std::int64_t count) const {
    thread_local std::vector<float> values;
    values.resize(static_cast<std::size_t>(band_.out * count));
    for (std::int64_t row = 0; row < band_.out; ++row)
      make_row(
          op_.source, levels_, row_of_whole(row), first_column,
          std::span(values).subspan(static_cast<std::size_t>(row * count), static_cast<std::size_t>(count)));
    const Tensor x(values.data(), NumberType::f32, {band_.out, count});
    if (count == band_.in) return run(single_thread(), Quantize{.x = x, .y = to_, .layout = band_});
    keep_int8_columns(x);
  }

  void keep_int8_columns(const Tensor& x) const {
    const MatrixLayout whole = MatrixLayout::of(band_.type, x.dim(0), x.dim(1));
    thread_local std::vector<std::byte> packed;
    packed.resize(static_cast<std::size_t>(whole.bytes));
    run(single_thread(), Quantize{.x = x, .y = packed.data(), .layout = whole});
    const WeightMatrix from{packed.data(), whole};
    std::memset(to_, 0, static_cast<std::size_t>(band_.bytes));
    for (std::int64_t row = 0; row < band_.out; ++row) {
      std::memcpy(to_ + row * band_.row_bytes, from.row_values(row) + op_.first_column,
                  static_cast<std::size_t>(band_.in));
      std::memcpy(to_ + band_.scales_offset + row * band_.scale_bytes, from.row_scales(row),
                  static_cast<std::size_t>(band_.scale_bytes));
    }
  }

  std::span<std::uint32_t> draws_of(std::int64_t row) const {
    return drawn(op_.source, row_of_whole(row), op_.first_column, static_cast<std::size_t>(band_.in));
  }

  void ship_fp8() const {
    const float scale = shipped_fp8_scale(op_.source);
    std::memset(to_, 0, static_cast<std::size_t>(band_.bytes));
    for (std::int64_t row = 0; row < band_.out; ++row) {
      std::byte* at = to_ + row * band_.row_bytes;
      for (const std::uint32_t draw : draws_of(row)) *at++ = static_cast<std::byte>(levels_.code[draw]);
      for (std::int64_t i = 0; i < band_.scales_per_row; ++i)
        std::memcpy(to_ + band_.scales_offset + (row * band_.scales_per_row + i) * band_.scale_bytes, &scale,
                    sizeof(scale));
    }
  }

  void ship_mxfp4() const {
    constexpr std::size_t kBlock = 32;
    const auto scale = static_cast<std::byte>(shipped_mxfp4_scale(op_.source));
    std::memset(to_, 0, static_cast<std::size_t>(band_.bytes));
    for (std::int64_t row = 0; row < band_.out; ++row) {
      std::byte* packed = to_ + row * band_.row_bytes;
      const std::span<std::uint32_t> draws = draws_of(row);
      for (std::size_t i = 0; i < draws.size(); ++i) {
        const std::size_t in_block = i % kBlock;
        const int shift = in_block < kBlock / 2 ? 0 : 4;
        packed[i / kBlock * (kBlock / 2) + in_block % (kBlock / 2)] |=
            static_cast<std::byte>(levels_.code[draws[i]] << shift);
      }
      std::fill_n(to_ + band_.scales_offset + row * band_.scales_per_row, band_.scales_per_row, scale);
    }
  }

  const Generate& op_;
  const Levels& levels_;
  std::int64_t first_;
  MatrixLayout band_;
  std::byte* to_;
};

void make_band(const Generate& op, const Levels& levels, std::int64_t first, std::int64_t rows) {
  const MatrixLayout band = MatrixLayout::of(op.layout.type, rows, op.layout.in);
  thread_local std::vector<std::byte> packed;
  packed.resize(static_cast<std::size_t>(band.bytes));
  BandMaker(op, levels, first, band, packed.data()).make();
  auto* const y = static_cast<std::byte*>(op.y);
  if (op.layout.packing == Packing::tiles) {
    const TileLayout whole = TileLayout::of(op.layout.type, op.layout.out, op.layout.in);
    return pack_tiles(single_thread(), {packed.data(), band}, y + first / kTileRows * whole.tile_bytes);
  }
  const std::int64_t scale_row_bytes = band.scales_per_row * band.scale_bytes;
  std::memcpy(y + first * band.row_bytes, packed.data(), static_cast<std::size_t>(rows * band.row_bytes));
  std::memcpy(y + op.layout.scales_offset + first * scale_row_bytes, packed.data() + band.scales_offset,
              static_cast<std::size_t>(rows * scale_row_bytes));
}

std::int64_t bytes_in_use(const MatrixLayout& layout) {
  if (layout.packing == Packing::rows)
    return layout.scales_offset + layout.out * layout.scales_per_row * layout.scale_bytes;
  const TileLayout tiles = TileLayout::of(layout.type, layout.out, layout.in);
  return tiles.tiles * tiles.tile_bytes;
}

}  // namespace

float shipped_fp8_scale(const NumberSource& source) {
  return source.step() * (static_cast<float>(kLargestDraw) / kLargestFp8);
}

// The smallest power of two of which the largest draw is less than 6.
std::uint8_t shipped_mxfp4_scale(const NumberSource& source) {
  int exponent = 0;
  std::frexp(source.step() * static_cast<float>(kLargestDraw) / kLargestFp4, &exponent);
  return static_cast<std::uint8_t>(std::clamp(exponent + 127, 0, 254));
}

void generate_row(const NumberSource& source, std::int64_t row, std::int64_t first_column,
                  std::span<float> values) {
  make_row(source, Levels(source), row, first_column, values);
}

void run(Cpu& cpu, const Generate& op) {
  const MatrixLayout& layout = op.layout;
  assert(op.first_row >= 0 && op.first_column >= 0 && op.first_column + layout.in <= op.in &&
         op.y != nullptr);
  const Levels levels(op.source);
  const std::int64_t band_rows = layout.type == NumberType::fp8 ? kFp8BandRows : kBandRows;
  const std::int64_t bands = (layout.out + band_rows - 1) / band_rows;
  cpu.pool().parallel_for(bands, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t band = begin; band < end; ++band)
      make_band(op, levels, band * band_rows, std::min(band_rows, layout.out - band * band_rows));
  });
  const std::int64_t used = bytes_in_use(layout);
  std::memset(static_cast<std::byte*>(op.y) + used, 0, static_cast<std::size_t>(layout.bytes - used));
}

}  // namespace moetune
