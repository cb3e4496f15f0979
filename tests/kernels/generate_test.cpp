// Generate: numbers that depend on nothing but their place, quantized as a checkpoint's would be.
#include "kernels/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/number_convert.h"
#include "kernels/philox.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
#include "kernels/tile_packing.h"
#include "tests/support/generated_part.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

constexpr NumberType kShipped[] = {NumberType::f32, NumberType::f16, NumberType::bf16, NumberType::fp8,
                                   NumberType::mxfp4};

NumberSource source_of(NumberType shipped) {
  return {.seed = 0x123456789ABCDEFULL, .layer = 3, .tensor = 11, .shipped = shipped, .deviation = 0.02F};
}

std::vector<float> row_of(const NumberSource& source, std::int64_t row, std::int64_t first,
                          std::size_t count) {
  std::vector<float> values(count);
  generate_row(source, row, first, values);
  return values;
}

std::vector<std::byte> made(const Generate& what, NumberType type, std::int64_t out, std::int64_t in,
                            Packing packing = Packing::rows, int threads = 1) {
  Device device = cpu(threads);
  Generate op = what;
  op.layout = MatrixLayout::of(type, out, in, packing);
  std::vector<std::byte> bytes(static_cast<std::size_t>(op.layout.bytes), std::byte{0xA5});
  op.y = bytes.data();
  run(device, op);
  return bytes;
}

TEST(Generate, ElementsAreTheWordsOfPhilox) {
  NumberSource source = source_of(NumberType::f32);
  source.deviation = kDrawDeviation;  // a draw stands for itself
  const std::vector<float> row = row_of(source, 7, 0, 12);
  for (std::uint32_t column = 0; column < 12; ++column) {
    const std::uint32_t word = philox({column / 4, 7, source.tensor, source.layer}, source.seed)[column % 4];
    int sum = -kLargestDraw;
    for (int byte = 0; byte < 4; ++byte) sum += static_cast<int>((word >> (8 * byte)) & 0xFFU);
    EXPECT_EQ(row[column], static_cast<float>(sum)) << column;
  }
}

// Written down once: the numbers are part of what a stored result means. A change needs a new
// kGeneratorVersion.
TEST(Generate, TheNumbersNeverChange) {
  ASSERT_EQ(kGeneratorVersion, 1);
  const NumberSource source{
      .seed = 1, .layer = 2, .tensor = 3, .shipped = NumberType::f32, .deviation = kDrawDeviation};
  EXPECT_EQ(row_of(source, 5, 2, 6), (std::vector<float>{194, 128, -68, 221, 125, -59}));
}

TEST(Generate, AnyPartHasTheNumbersOfTheWhole) {
  for (const std::int64_t instruction_set : instruction_sets()) {
    const WithInstructionSet with(instruction_set);
    const NumberSource source = source_of(NumberType::bf16);
    const std::vector<float> whole = row_of(source, 100, 0, 301);
    for (const std::size_t first : {0U, 1U, 2U, 3U, 4U, 63U, 130U})
      for (const std::size_t count : {1U, 2U, 5U, 64U, 171U})
        EXPECT_EQ(row_of(source, 100, static_cast<std::int64_t>(first), count),
                  std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first),
                                     whole.begin() + static_cast<std::ptrdiff_t>(first + count)))
            << name_of_instruction_set(instruction_set) << ", " << count << " from " << first;
  }
}

TEST(Generate, SeedLayerTensorAndRowMakeOtherNumbers) {
  const NumberSource base = source_of(NumberType::f32);
  std::set<std::vector<float>> rows{row_of(base, 0, 0, 16), row_of(base, 1, 0, 16)};
  for (const int changed : {0, 1, 2, 3}) {
    NumberSource other = base;
    if (changed == 0) other.seed += 1;
    if (changed == 1) other.seed += std::uint64_t{1} << 32;
    if (changed == 2) other.layer += 1;
    if (changed == 3) other.tensor += 1;
    rows.insert(row_of(other, 0, 0, 16));
  }
  EXPECT_EQ(rows.size(), 6U);
}

TEST(Generate, SpreadIsNearlyNormal) {
  for (const NumberType shipped : kShipped) {
    double sum = 0.0;
    double squares = 0.0;
    std::int64_t within = 0;
    constexpr int kRows = 64;
    constexpr std::size_t kColumns = 4096;
    constexpr double kCount = double{kRows} * kColumns;
    const double deviation = source_of(shipped).deviation;
    for (int row = 0; row < kRows; ++row)
      for (const float value : row_of(source_of(shipped), row, 0, kColumns)) {
        sum += value;
        squares += double{value} * value;
        within += std::fabs(value) < deviation ? 1 : 0;
      }
    // Five standard errors; mxfp4's eight sizes change the spread itself a little.
    EXPECT_NEAR(sum / kCount, 0.0, 5 * deviation / std::sqrt(kCount)) << name_of(shipped);
    EXPECT_NEAR(std::sqrt(squares / kCount) / deviation, 1.0, shipped == NumberType::mxfp4 ? 0.02 : 0.005)
        << name_of(shipped);
    // fp8 and mxfp4 have so few sizes that many draws share one.
    if (shipped != NumberType::mxfp4 && shipped != NumberType::fp8) {
      EXPECT_NEAR(static_cast<double>(within) / kCount, 0.669, 0.005)
          << name_of(shipped);  // 0.683 of a normal one
    }
  }
}

TEST(Generate, NumbersAreOfTheTypeThatShips) {
  for (const float value : row_of(source_of(NumberType::bf16), 0, 0, 512))
    EXPECT_EQ(f32_from_bf16(bf16_from_f32(value)), value);
  for (const float value : row_of(source_of(NumberType::f16), 0, 0, 512))
    EXPECT_EQ(f32_from_f16(f16_from_f32(value)), value);
  const float fp8_scale = shipped_fp8_scale(source_of(NumberType::fp8));
  std::set<float> levels;
  for (const float value : row_of(source_of(NumberType::fp8), 0, 0, 4096)) levels.insert(value);
  for (const float value : levels)
    EXPECT_EQ(f32_from_fp8(fp8_from_f32(value / fp8_scale)) * fp8_scale, value);
  EXPECT_GT(levels.size(), 60U);
  levels.clear();
  for (const float value : row_of(source_of(NumberType::mxfp4), 0, 0, 4096)) levels.insert(value);
  EXPECT_GE(levels.size(), 11U);
  EXPECT_LE(levels.size(), 15U);
}

// Quantized as kernels/quantize.h quantizes the same numbers out of a checkpoint.
TEST(Generate, IsQuantizedAsACheckpointIs) {
  for (const NumberType shipped : {NumberType::f32, NumberType::f16, NumberType::bf16})
    for (const NumberType type : kWeightTypes)
      for (const auto& [out, in] :
           {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 52}, {130, 257}, {200, 160}}) {
        const NumberSource source = source_of(shipped);
        OwnedTensor floats = poisoned({out, in});
        for (std::int64_t row = 0; row < out; ++row)
          generate_row(source, row, 0, {floats.view().f32() + row * in, static_cast<std::size_t>(in)});
        Device device = cpu();
        const MatrixLayout layout = MatrixLayout::of(type, out, in);
        std::vector<std::byte> expected(static_cast<std::size_t>(layout.bytes));
        run(device, Quantize{.x = floats.view(), .y = expected.data(), .layout = layout});
        const std::string what = std::string(name_of(type)) + " from " + std::string(name_of(shipped)) + " " +
                                 std::to_string(out) + "x" + std::to_string(in);
        EXPECT_EQ(made(part_of(source, in), type, out, in), expected) << what;
        EXPECT_EQ(made(part_of(source, in), type, out, in, Packing::rows, 3), expected)
            << what << ", 3 threads";
      }
}

TEST(Generate, TilesHoldWhatRowsHold) {
  for (const NumberType shipped : kShipped)
    for (const NumberType type : kWeightTypes) {
      if (type == NumberType::f32) continue;
      for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 52}, {130, 257}}) {
        const Generate what = part_of(source_of(shipped), in);
        const std::vector<std::byte> rows = made(what, type, out, in);
        std::vector<std::byte> expected(
            static_cast<std::size_t>(MatrixLayout::of(type, out, in, Packing::tiles).bytes));
        Cpu one(1);
        pack_tiles(one, {rows.data(), MatrixLayout::of(type, out, in)}, expected.data());
        EXPECT_EQ(made(what, type, out, in, Packing::tiles), expected)
            << name_of(type) << " from " << name_of(shipped) << " " << out << "x" << in;
      }
    }
}

// What ships in fp8 or mxfp4 and stays so has the very numbers of its rows.
TEST(Generate, ShippedTypesAreExact) {
  for (const NumberType type : {NumberType::fp8, NumberType::mxfp4, NumberType::bf16}) {
    const NumberSource source = source_of(type);
    const MatrixLayout layout = MatrixLayout::of(type, 19, 100);
    const std::vector<std::byte> bytes = made(part_of(source, 100), type, 19, 100);
    for (std::int64_t row = 0; row < 19; ++row) {
      std::vector<float> stored(100);
      dequantize_row({bytes.data(), layout}, row, stored.data());
      EXPECT_EQ(stored, row_of(source, row, 0, 100)) << name_of(type);
    }
  }
}

// A tensor-parallel rank's part: an int8 row keeps the scale of its full width.
TEST(Generate, PartsOfAMatrixAreThoseOfTheWhole) {
  for (const NumberType type : {NumberType::bf16, NumberType::int8, NumberType::int4_g32}) {
    const NumberSource source = source_of(NumberType::bf16);
    const MatrixLayout whole_layout = MatrixLayout::of(type, 40, 256);
    const std::vector<std::byte> whole = made(part_of(source, 256), type, 40, 256);
    const MatrixLayout layout = MatrixLayout::of(type, 20, 128);
    const std::vector<std::byte> part = made(part_of(source, 256, 20, 128), type, 20, 128);
    for (std::int64_t row = 0; row < 20; ++row) {
      std::vector<float> expected(256);
      std::vector<float> values(128);
      dequantize_row({whole.data(), whole_layout}, row + 20, expected.data());
      dequantize_row({part.data(), layout}, row, values.data());
      EXPECT_EQ(values, std::vector<float>(expected.begin() + 128, expected.end()))
          << name_of(type) << " row " << row;
    }
  }
}

TEST(Generate, RefusesWhatNoModelShipsIn) {
  EXPECT_THROW(row_of(source_of(NumberType::int4), 0, 0, 4), std::invalid_argument);
  EXPECT_THROW(made(part_of(source_of(NumberType::int8), 4), NumberType::bf16, 1, 4), std::invalid_argument);
}

}  // namespace
}  // namespace moetune
