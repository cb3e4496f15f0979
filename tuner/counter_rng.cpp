#include "tuner/counter_rng.h"

#include <array>

namespace moetune {
namespace {
// The tuner core may not include kernels/philox.h, which is this function for the engine's sampling; both are
// checked against the authors' known answers.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  auto key_low = static_cast<std::uint32_t>(key);
  auto key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key_low, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key_high, static_cast<std::uint32_t>(a)};
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  return counter;
}
}  // namespace

std::uint64_t CounterRng::bits(std::uint64_t index) const {
  const auto words = philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                 iteration_, static_cast<std::uint32_t>(stage_)},
                                seed_);
  return words[0] | (std::uint64_t{words[1]} << 32);
}

double CounterRng::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

std::uint64_t CounterRng::below(std::uint64_t bound, std::uint64_t index) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{bits(index)} * bound) >> 64);
}

}  // namespace moetune
