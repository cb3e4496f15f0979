// Philox4x32-10, a counter-based random generator (Salmon et al., SC'11): the same counter and key give the
// same four numbers on every device, with no state to carry along.
#pragma once

#include <array>
#include <cstdint>

namespace moetune {

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  auto low_key = static_cast<std::uint32_t>(key);
  auto high_key = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ low_key, static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ high_key, static_cast<std::uint32_t>(first)};
    low_key += 0x9E3779B9U;
    high_key += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace moetune
