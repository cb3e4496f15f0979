// Quantize and Dequantize: the layout byte by byte, the largest error, exact cases, refusals.
#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/embed.h"
#include "kernels/number_convert.h"
#include "kernels/reference.h"
#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

OwnedTensor dequantized(const OwnedMatrix& matrix, int threads = 1) {
  Device device = cpu(threads);
  OwnedTensor floats = poisoned({matrix.w.layout.out, matrix.w.layout.in});
  run(device, Dequantize{.x = matrix.w, .y = floats.view()});
  return floats;
}

TEST(MatrixLayout, SizesOfEveryType) {
  const auto bytes = [](NumberType type, std::int64_t out, std::int64_t in) {
    return MatrixLayout::of(type, out, in).bytes;
  };
  EXPECT_EQ(bytes(NumberType::f32, 4, 32), 512);
  EXPECT_EQ(bytes(NumberType::bf16, 4, 32), 256);
  EXPECT_EQ(bytes(NumberType::bf16, 3, 5), 64);          // rows padded to 16, the matrix to 64
  EXPECT_EQ(bytes(NumberType::int8, 4, 60), 320);        // 4 x 64 values, 4 x 4 scales
  EXPECT_EQ(bytes(NumberType::int4, 8, 256), 1088);      // 8 x 128 values, 8 x 2 scales of 2 bytes
  EXPECT_EQ(bytes(NumberType::int4_g32, 8, 256), 1152);  // 8 x 8 scales
  EXPECT_EQ(MatrixLayout::of(NumberType::int4, 1, 129).scales_per_row, 2);
  const ExpertLayout expert = ExpertLayout::of(NumberType::int8, 60, 20);
  EXPECT_EQ(expert.up_offset, expert.gate.bytes);
  EXPECT_EQ(expert.bytes, expert.gate.bytes + expert.up.bytes + expert.down.bytes);
  EXPECT_EQ(expert.down.out, 60);
  EXPECT_EQ(expert.down.in, 20);
}

TEST(MatrixLayout, RefusesTypesThatNoMatrixHas) {
  for (const NumberType type : {NumberType::i32}) {
    try {
      MatrixLayout::of(type, 2, 2);
      FAIL() << name_of(type);
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(name_of(type)), std::string::npos) << error.what();
    }
  }
}

TEST(Quantize, Int4BytesAreWhereTheHeaderSays) {
  // One row of 34: a full block, and one with two elements. Largest 7, so the scale is 1.
  const OwnedMatrix matrix = weights(NumberType::int4, 1, 34, [](std::int64_t, std::int64_t column) {
    return column == 33 ? -7.0F : static_cast<float>(column % 8);
  });
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(matrix.w.row_values(0));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(bytes[i], (i % 8 + 8) | ((i + 16) % 8 + 8) << 4) << i;
  EXPECT_EQ(bytes[16], 8 | 8 << 4);         // element 32 is 0
  EXPECT_EQ(bytes[17], (-7 + 8) | 8 << 4);  // element 33; its upper half is padding
  EXPECT_EQ(bytes[31], 8 | 8 << 4);
  std::uint16_t scale = 0;
  std::memcpy(&scale, matrix.w.row_scales(0), sizeof(scale));
  EXPECT_EQ(f32_from_f16(scale), 1.0F);
}

TEST(Quantize, StoredNumbersComeBackExactly) {
  for (const NumberType type : kWeightTypes) {
    const float step = type == NumberType::int8 ? 1.0F / 64 : 0.5F;
    const int limit = type == NumberType::int8 ? 127 : 7;
    const auto rule = [&](std::int64_t row, std::int64_t column) {
      if (type == NumberType::mxfp4)  // its sizes are not evenly spaced
        return f32_from_fp4(column % 32 == 0 ? 7U : static_cast<unsigned>(row * 7 + column) % 16U);
      return step *
             static_cast<float>(column % 32 == 0 ? limit : (row * 7 + column) % (2 * limit + 1) - limit);
    };
    for (const std::int64_t in : {1, 31, 32, 130, 257}) {
      const OwnedMatrix matrix = weights(type, 3, in, rule);
      expect_same_bits(dequantized(matrix).view(),
                       filled({3, in}, [&](std::int64_t i) { return rule(i / in, i % in); }).view(),
                       std::string(name_of(type)) + " " + std::to_string(in));
    }
  }
}

// Half a step, whatever the numbers: nothing is clipped. The f16 scale may be up to 1/1024 wider than needed.
TEST(Quantize, ErrorIsAtMostHalfAStep) {
  for (const NumberType type : {NumberType::int8, NumberType::int4, NumberType::int4_g32})
    for (const float magnitude : {1e-6F, 0.02F, 1.0F, 3e4F}) {
      const std::int64_t in = 300;
      const OwnedTensor original = filled({2, in}, [&](std::int64_t i) {
        return magnitude * std::sin(static_cast<float>(i * i)) * (i % 100 == 0 ? 3.0F : 1.0F);
      });
      const OwnedMatrix matrix = weights(type, 2, in, [&](std::int64_t row, std::int64_t column) {
        return original.view().f32()[row * in + column];
      });
      const std::vector<float> back = values_of(dequantized(matrix).view());
      const int group = type == NumberType::int8 ? static_cast<int>(in) : quantization_group(type);
      for (std::int64_t i = 0; i < 2 * in; ++i) {
        float largest = 0.0F;
        const std::int64_t begin = i / in * in + i % in / group * group;
        for (std::int64_t j = begin; j < std::min(begin + group, (i / in + 1) * in); ++j)
          largest = std::max(largest, std::fabs(original.view().f32()[j]));
        const float half_step = 0.5F * largest / (type == NumberType::int8 ? 127.0F : 7.0F);
        // Below 6e-8 an f16 scale is a multiple of 2^-24.
        const float slack = half_step / 500 + (type == NumberType::int8 ? 0.0F : 0x1p-25F);
        EXPECT_LE(std::fabs(back[static_cast<std::size_t>(i)] - original.view().f32()[i]), half_step + slack)
            << name_of(type) << " magnitude " << magnitude << " element " << i;
      }
    }
}

// e4m3 has three bits of mantissa, so within a block's range the error is at most a sixteenth of the number,
// or half of the smallest step.
TEST(Quantize, Fp8ErrorIsASixteenthAndBlocksKeepApart) {
  const std::int64_t in = 300;
  const OwnedTensor original = filled({130, in}, [&](std::int64_t i) {
    const float block = (i / in / 128 == 1 ? 100.0F : 1.0F) * (i % in / 128 == 1 ? 0.001F : 1.0F);
    return block * std::sin(static_cast<float>(i % 9973));
  });
  const OwnedMatrix matrix = weights(NumberType::fp8, 130, in, [&](std::int64_t row, std::int64_t column) {
    return original.view().f32()[row * in + column];
  });
  const std::vector<float> back = values_of(dequantized(matrix).view());
  for (std::int64_t i = 0; i < 130 * in; ++i) {
    const float value = original.view().f32()[i];
    float scale = 0.0F;
    std::memcpy(&scale, matrix.w.row_scales(i / in) + i % in / 128 * 4, sizeof(scale));
    EXPECT_LE(std::fabs(back[static_cast<std::size_t>(i)] - value),
              std::max(std::fabs(value) * (1.0F / 16), scale * 0x1p-10F) * 1.0001F)
        << i;
  }
}

// Beyond 6 of its scale a number saturates; elsewhere half of the widest step of its size.
TEST(Quantize, Mxfp4RoundsToTheNearestSize) {
  const float values[] = {6.0F, 7.9F,  0.24F, 0.26F, -0.25F, 0.74F, 0.75F, 1.25F,
                          1.3F, 1.75F, 2.5F,  -2.6F, 3.5F,   4.9F,  5.0F,  -5.1F};
  const float expected[] = {6.0F, 6.0F, 0.0F, 0.5F,  -0.0F, 0.5F, 1.0F, 1.0F,
                            1.5F, 2.0F, 2.0F, -3.0F, 4.0F,  4.0F, 4.0F, -6.0F};
  const OwnedMatrix matrix =
      weights(NumberType::mxfp4, 1, 16, [&](std::int64_t, std::int64_t column) { return values[column]; });
  expect_same_bits(dequantized(matrix).view(),
                   filled({1, 16}, [&](std::int64_t i) { return expected[i]; }).view(), "sizes");
}

TEST(Quantize, ZerosStayZeros) {
  for (const NumberType type : kWeightTypes) {
    const OwnedMatrix matrix = weights(type, 2, 70, [](std::int64_t, std::int64_t) { return 0.0F; });
    for (const float value : values_of(dequantized(matrix).view())) EXPECT_EQ(value, 0.0F) << name_of(type);
  }
}

TEST(Quantize, ReadsNarrowAndStridedRows) {
  Device device = cpu();
  for (const NumberType from : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedTensor whole =
        stored_as(from, filled({3, 10}, [](std::int64_t i) { return static_cast<float>(i); }).view());
    const MatrixLayout layout = MatrixLayout::of(NumberType::f32, 3, 4);
    const Buffer packed(device, layout.bytes);
    const Tensor rows = whole.view().reshaped({3, 10}).columns(5, 4);
    run(device, Quantize{.x = rows, .y = packed.data(), .layout = layout});
    for (std::int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(reference::weight_at({packed.data(), layout}, i / 4, i % 4),
                static_cast<float>(i / 4 * 10 + 5 + i % 4))
          << name_of(from);
  }
}

TEST(Quantize, SameBytesForAnyNumberOfThreads) {
  for (const NumberType type : kWeightTypes) {
    const OwnedTensor values = random_floats({300, 700}, 1);
    const MatrixLayout layout = MatrixLayout::of(type, 300, 700);
    Device one = cpu(1);
    Device two = cpu(2);
    const Buffer first(one, layout.bytes);
    const Buffer second(two, layout.bytes);
    run(one, Quantize{.x = values.view(), .y = first.data(), .layout = layout});
    run(two, Quantize{.x = values.view(), .y = second.data(), .layout = layout});
    EXPECT_EQ(std::memcmp(first.data(), second.data(), static_cast<std::size_t>(layout.bytes)), 0)
        << name_of(type);
  }
}

TEST(Quantize, NamesTheWeightThatCannotBeStored) {
  const auto refused = [](NumberType type, float value) -> std::string {
    try {
      weights(type, 4, 40,
              [&](std::int64_t row, std::int64_t column) { return row == 2 && column == 33 ? value : 1.0F; });
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const NumberType type : kWeightTypes)
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
      EXPECT_EQ(refused(type, value), "row 2, column 33: weight is not a finite number") << name_of(type);
  EXPECT_EQ(refused(NumberType::f16, 1e6F), "row 2, column 33: weight is too large for f16");
  EXPECT_EQ(refused(NumberType::bf16, std::numeric_limits<float>::max()),
            "row 2, column 33: weight is too large for bf16");
  EXPECT_EQ(refused(NumberType::int4_g32, 1e6F),
            "row 2, column 32: weights are too large for an int4 group with an f16 scale");
  EXPECT_EQ(refused(NumberType::int8, 1e30F), "accepted");
}

TEST(Dequantize, AgreesWithThePlainReadingOfTheLayout) {
  for (const NumberType type : kWeightTypes) {
    const OwnedMatrix matrix = random_weights(type, 9, 161, 3);
    const OwnedTensor expected =
        filled({9, 161}, [&](std::int64_t i) { return reference::weight_at(matrix.w, i / 161, i % 161); });
    expect_same_bits(dequantized(matrix, 2).view(), expected.view(), std::string(name_of(type)));
  }
}

TEST(Embed, GathersRowsOfEveryType) {
  Device device = cpu(2);
  for (const NumberType type : kWeightTypes) {
    const OwnedMatrix table = random_weights(type, 10, 37, 4);
    const OwnedTensor tokens = ids({9, 0, 3, 3});
    const OwnedTensor y = poisoned({4, 37});
    run(device, Embed{.table = table.w, .ids = tokens.view(), .y = y.view()});
    const OwnedTensor expected = filled({4, 37}, [&](std::int64_t i) {
      return reference::weight_at(table.w, tokens.view().i32()[i / 37], i % 37);
    });
    expect_same_bits(y.view(), expected.view(), std::string(name_of(type)));
  }
}

}  // namespace
}  // namespace moetune
