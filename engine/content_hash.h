// A 128-bit fingerprint of a byte stream, fast enough for weights (several GB/s on one core). It tells models
// apart and notices accidental changes; it is no protection against somebody who forges one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moetune {

class ContentHash {
 public:
  ContentHash();
  // How the bytes are cut into calls does not matter.
  void add(std::span<const std::byte> bytes);
  // Text with its length in front, so that ("ab", "c") and ("a", "bc") differ.
  void add_text(std::string_view text);
  void add_number(std::uint64_t number);
  // 32 hex digits of everything added so far.
  std::string hex() const;

 private:
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kStripe = kLanes * sizeof(std::uint64_t);
  void mix_stripe(const std::byte* stripe);

  std::array<std::uint64_t, kLanes> lanes_;
  std::array<std::byte, kStripe> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace moetune
