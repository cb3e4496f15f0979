// Several numbers sit in one 64-bit word. Masking leaves the exponents; adding the lowest exponent bit to
// each carries into the number's sign bit exactly when all its exponent bits are ones, and never into the
// neighbour.
#include "engine/finite.h"

#include <cassert>
#include <cstring>

namespace moetune {
namespace {

struct Pattern {
  std::uint64_t exponent;  // all exponent bits
  std::uint64_t lowest;    // their lowest bit
  std::uint64_t sign;
  std::size_t element_bytes;
};

Pattern pattern_of(NumberType type) {
  constexpr std::uint64_t kFour = 0x0001'0001'0001'0001;
  constexpr std::uint64_t kTwo = 0x0000'0001'0000'0001;
  switch (type) {
    case NumberType::bf16:
      return {0x7F80 * kFour, 0x0080 * kFour, 0x8000 * kFour, 2};
    case NumberType::f16:
      return {0x7C00 * kFour, 0x0400 * kFour, 0x8000 * kFour, 2};
    default:
      assert(type == NumberType::f32);
      return {0x7F80'0000 * kTwo, 0x0080'0000 * kTwo, 0x8000'0000 * kTwo, 4};
  }
}

}  // namespace

std::int64_t first_not_finite(std::span<const std::byte> bytes, NumberType type) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  constexpr std::size_t kBlock = 64 * kWord;  // looked at without a branch
  const Pattern pattern = pattern_of(type);
  const auto carries = [&](std::size_t at, std::size_t length) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, length);
    return ((word & pattern.exponent) + pattern.lowest) & pattern.sign;
  };
  std::size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    std::uint64_t any = 0;
    for (std::size_t word = 0; word < kBlock; word += kWord) any |= carries(at + word, kWord);
    if (any != 0) break;
  }
  for (; at < bytes.size(); at += pattern.element_bytes) {
    if (carries(at, pattern.element_bytes) != 0) return static_cast<std::int64_t>(at / pattern.element_bytes);
  }
  return -1;
}

}  // namespace moetune
