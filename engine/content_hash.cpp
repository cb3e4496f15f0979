// Eight lanes of 64 bits hide the multiplier's latency. A word is multiplied into its own lane, where a
// rotation brings the high bits, which a product spreads nowhere, down to where the next product spreads
// them; and it is added, rotated otherwise, to its neighbour's lane: with one lane alone, flipping bit 62 of
// a word and flipping bit 30 of the next word in that lane would give the same hash.
#include "engine/content_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace moetune {
namespace {

constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
constexpr std::uint64_t kOtherOdd =
    0xD1342543DE82EF95;  // multiplier of a full-period generator (Steele and Vigna 2021)

std::uint64_t spread(std::uint64_t word) {
  word ^= word >> 32;
  word *= kOdd;
  word ^= word >> 29;
  word *= kOtherOdd;
  return word ^ (word >> 32);
}

}  // namespace

ContentHash::ContentHash() {
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes_[lane] = spread(lane + 1);
}

void ContentHash::mix_stripe(const std::byte* stripe) {
  std::array<std::uint64_t, kLanes> words;
  std::memcpy(words.data(), stripe, kStripe);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes_[lane] = std::rotl((lanes_[lane] ^ words[lane]) * kOdd, 32) + std::rotl(words[lane ^ 1], 17);
  }
}

void ContentHash::add(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && bytes.size() >= kStripe) {
      const std::size_t whole = bytes.size() / kStripe * kStripe;
      for (std::size_t at = 0; at < whole; at += kStripe) mix_stripe(bytes.data() + at);
      bytes = bytes.subspan(whole);
      continue;
    }
    const std::size_t taken = std::min(kStripe - pending_bytes_, bytes.size());
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), taken);
    pending_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (pending_bytes_ == kStripe) {
      mix_stripe(pending_.data());
      pending_bytes_ = 0;
    }
  }
}

void ContentHash::add_number(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

void ContentHash::add_text(std::string_view text) {
  add_number(text.size());
  add(std::as_bytes(std::span(text)));
}

std::string ContentHash::hex() const {
  ContentHash closed = *this;
  std::fill(closed.pending_.begin() + static_cast<std::ptrdiff_t>(pending_bytes_), closed.pending_.end(),
            std::byte{0});
  closed.mix_stripe(closed.pending_.data());
  std::uint64_t high = total_bytes_;
  std::uint64_t low = ~total_bytes_;
  for (const std::uint64_t lane : closed.lanes_) {
    high = spread(high ^ lane);
    low = spread(std::rotl(low, 17) + lane);
  }
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace moetune
