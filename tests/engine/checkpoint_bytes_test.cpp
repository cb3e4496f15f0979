// The two loops that read every byte of a checkpoint: content hash and search for NaN.
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/content_hash.h"
#include "engine/finite.h"

namespace moetune {
namespace {

std::string hash_of(const std::vector<std::uint8_t>& bytes, std::size_t piece) {
  ContentHash hash;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    hash.add(std::as_bytes(std::span(bytes)).subspan(at, std::min(piece, bytes.size() - at)));
  }
  return hash.hex();
}

std::vector<std::uint8_t> some_bytes(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t at = 0; at < count; ++at) bytes[at] = static_cast<std::uint8_t>(at * at * 7 + at / 11);
  return bytes;
}

TEST(ContentHash, DoesNotDependOnHowTheBytesAreCut) {
  const auto bytes = some_bytes(1000);
  const std::string whole = hash_of(bytes, bytes.size());
  EXPECT_EQ(whole.size(), 32U);
  for (const std::size_t piece : {1, 3, 63, 64, 65, 127, 999})
    EXPECT_EQ(hash_of(bytes, piece), whole) << piece;
}

TEST(ContentHash, ChangesWithEveryBitAndLength) {
  auto bytes = some_bytes(200);
  std::set<std::string> seen{hash_of(bytes, 200)};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    seen.insert(hash_of(bytes, 200));
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  }
  // Two changes that a plain multiplicative hash lets cancel: the same top bit in two words of one lane.
  bytes[7] ^= 0x80;
  bytes[64 + 7] ^= 0x80;
  seen.insert(hash_of(bytes, 200));
  for (std::size_t zeros = 0; zeros < 130; ++zeros)
    seen.insert(hash_of(std::vector<std::uint8_t>(zeros), 200));
  EXPECT_EQ(seen.size(), 1U + 1600U + 1U + 130U);
}

TEST(ContentHash, TextsKeepTheirBorders) {
  ContentHash one;
  one.add_text("ab");
  one.add_text("c");
  ContentHash other;
  other.add_text("a");
  other.add_text("bc");
  EXPECT_NE(one.hex(), other.hex());
}

template <class Number>
std::int64_t search(const std::vector<Number>& numbers, NumberType type) {
  return first_not_finite(std::as_bytes(std::span(numbers)), type);
}

TEST(Finite, EveryPatternOf16Bits) {
  for (const auto& [type, exponent] :
       {std::pair{NumberType::f16, 0x7C00U}, std::pair{NumberType::bf16, 0x7F80U}}) {
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const bool finite = (pattern & exponent) != exponent;
      const std::vector<std::uint16_t> one{static_cast<std::uint16_t>(pattern)};
      ASSERT_EQ(search(one, type), finite ? -1 : 0) << pattern;
    }
  }
}

TEST(Finite, FindsTheFirstAtAnyPlace) {
  for (std::size_t size : {1, 5, 255, 256, 257, 700}) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> numbers(size, std::numeric_limits<float>::max());
      ASSERT_EQ(search(numbers, NumberType::f32), -1);
      numbers[at] =
          at % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
      ASSERT_EQ(search(numbers, NumberType::f32), static_cast<std::int64_t>(at));
      numbers[size - 1] = std::numeric_limits<float>::infinity();
      ASSERT_EQ(search(numbers, NumberType::f32), static_cast<std::int64_t>(at));
    }
  }
}

TEST(Finite, NeighboursDoNotDisturbOneAnother) {
  // All neighbours as large as a finite number gets; -65504, then the largest bf16.
  std::vector<std::uint16_t> halves(1000, 0xFBFF);
  EXPECT_EQ(search(halves, NumberType::f16), -1);
  halves.assign(1000, 0xFF7F);
  EXPECT_EQ(search(halves, NumberType::bf16), -1);
  halves[777] = 0xFF80;
  EXPECT_EQ(search(halves, NumberType::bf16), 777);
}

}  // namespace
}  // namespace moetune
