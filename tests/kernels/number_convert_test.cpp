// The 16-bit conversions against all 65,536 numbers and the edges of rounding.
#include "kernels/number_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace moetune {
namespace {

TEST(NumberConvert, EveryHalfGoesThereAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(f32_from_f16(half))) {
      EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(f32_from_f16(half)))));
    } else {
      EXPECT_EQ(f16_from_f32(f32_from_f16(half)), half) << bits;
    }
    if (std::isnan(f32_from_bf16(half))) {
      EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(f32_from_bf16(half)))));
    } else {
      EXPECT_EQ(bf16_from_f32(f32_from_bf16(half)), half) << bits;
    }
  }
}

TEST(NumberConvert, KnownF16Values) {
  EXPECT_EQ(f32_from_f16(0x3C00), 1.0F);
  EXPECT_EQ(f32_from_f16(0xC000), -2.0F);
  EXPECT_EQ(f32_from_f16(0x7BFF), 65504.0F);
  EXPECT_EQ(f32_from_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(f32_from_f16(0x0400), 0x1p-14F);
  EXPECT_EQ(f32_from_f16(0x7C00), std::numeric_limits<float>::infinity());
}

TEST(NumberConvert, F16RoundsToNearestEven) {
  EXPECT_EQ(f16_from_f32(1.0F + 0x1p-11F), 0x3C00);             // halfway: to even, down
  EXPECT_EQ(f16_from_f32(1.0F + 3 * 0x1p-11F), 0x3C02);         // halfway: to even, up
  EXPECT_EQ(f16_from_f32(1.0F + 0x1p-11F + 0x1p-20F), 0x3C01);  // just above halfway
  EXPECT_EQ(f16_from_f32(0x1p-25F), 0x0000);                    // half of the smallest: to even
  EXPECT_EQ(f16_from_f32(3 * 0x1p-25F), 0x0002);
  EXPECT_EQ(f16_from_f32(0x1p-14F - 0x1p-26F), 0x0400);  // the largest subnormal rounds up into the normals
  EXPECT_EQ(f16_from_f32(65519.0F), 0x7BFF);
  EXPECT_EQ(f16_from_f32(65520.0F), 0x7C00);
  EXPECT_EQ(f16_from_f32(-1e30F), 0xFC00);
  EXPECT_EQ(f16_from_f32(-0.0F), 0x8000);
}

TEST(NumberConvert, Bf16RoundsToNearestEven) {
  EXPECT_EQ(bf16_from_f32(1.0F), 0x3F80);
  EXPECT_EQ(bf16_from_f32(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(bf16_from_f32(1.0F + 3 * 0x1p-8F), 0x3F82);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(
      f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7F800001U)))));  // not rounded to infinity
}

TEST(NumberConvert, Fp4RoundsToNearestEven) {
  const float numbers[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (unsigned code = 0; code < 8; ++code) {
    EXPECT_EQ(f32_from_fp4(code), numbers[code]);
    EXPECT_EQ(fp4_from_f32(numbers[code]), code);
    EXPECT_EQ(fp4_from_f32(-numbers[code]), code | 8U);
    if (code == 7) break;
    const float half = 0.5F * (numbers[code] + numbers[code + 1]);
    EXPECT_EQ(fp4_from_f32(half), code % 2 == 0 ? code : code + 1) << half;
    EXPECT_EQ(fp4_from_f32(std::nextafter(half, 0.0F)), code) << half;
    EXPECT_EQ(fp4_from_f32(std::nextafter(half, 9.0F)), code + 1) << half;
  }
  EXPECT_EQ(fp4_from_f32(1e30F), 7U) << "saturates";
}

TEST(NumberConvert, E8m0IsAPowerOfTwoThatBringsTheLargestToFour) {
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(f32_from_e8m0(static_cast<std::uint8_t>(code)), std::ldexp(1.0F, code - 127)) << code;
  for (const float largest : {1.0F, 3.9F, 0x1p-100F, 1e30F}) {
    const float scaled = largest / f32_from_e8m0(mxfp4_scale(largest));
    EXPECT_GE(scaled, 4.0F);
    EXPECT_LT(scaled, 8.0F);
  }
  EXPECT_EQ(mxfp4_scale(0.0F), 0);
  EXPECT_EQ(mxfp4_scale(0x1p-127F), 0) << "smaller than the smallest scale would bring to four";
}

TEST(NumberConvert, EveryFp8GoesThereAndBack) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    if ((bits & 0x7FU) == 0x7FU)
      EXPECT_TRUE(std::isnan(f32_from_fp8(code)));
    else
      EXPECT_EQ(fp8_from_f32(f32_from_fp8(code)), code) << bits;
  }
  EXPECT_EQ(f32_from_fp8(0x7E), kLargestFp8);
  EXPECT_EQ(fp8_from_f32(1e9F), 0x7E) << "saturates";
}

}  // namespace
}  // namespace moetune
