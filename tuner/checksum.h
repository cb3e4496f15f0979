// CRC-32 as in zlib, gzip and PNG (polynomial 0xEDB88320, reflected): finds torn and overwritten lines of a
// log.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace moetune {

constexpr std::array<std::uint32_t, 256> crc32_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1U) != 0 ? 0xEDB88320U : 0U);
    table[i] = remainder;
  }
  return table;
}

constexpr std::uint32_t crc32(std::string_view bytes) {
  constexpr std::array<std::uint32_t, 256> table = crc32_table();
  std::uint32_t state = 0xFFFFFFFFU;
  for (const char byte : bytes)
    state = (state >> 8) ^ table[(state ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~state;
}

static_assert(crc32("123456789") == 0xCBF43926U);  // the check value every catalogue of CRCs lists

}  // namespace moetune
