// philox.h on the device: the same counter and key, the same four words.
#pragma once

#include <cstdint>

namespace moetune::cuda {

struct Random4 {
  std::uint32_t value[4];
};

__device__ __forceinline__ Random4 philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                          std::uint32_t c3, std::uint64_t key) {
  std::uint32_t counter[4] = {c0, c1, c2, c3};
  auto low_key = static_cast<std::uint32_t>(key);
  auto high_key = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ low_key, static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ high_key, static_cast<std::uint32_t>(first)};
    for (int i = 0; i < 4; ++i) counter[i] = next[i];
    low_key += 0x9E3779B9U;
    high_key += 0xBB67AE85U;
  }
  return {{counter[0], counter[1], counter[2], counter[3]}};
}

}  // namespace moetune::cuda
