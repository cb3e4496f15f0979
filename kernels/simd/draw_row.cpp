// Philox as philox.h defines it, several counters side by side. A vector has one counter in each 64-bit lane,
// so that one multiplication gives both halves of a product; what stands above a lane's 32 bits is never
// read.
#include "kernels/simd/draw_row.h"

#include <algorithm>
#include <array>

#include "kernels/philox.h"
#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/draw_row.cpp"
#include "hwy/foreach_target.h"

// Only after foreach_target.h, which compiles this file once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Place {
  std::uint64_t seed;
  std::uint32_t layer;
  std::uint32_t tensor;
  std::uint32_t row;
};

std::uint32_t byte_sum(std::uint32_t word) {
  return (word & 0xFFU) + ((word >> 8) & 0xFFU) + ((word >> 16) & 0xFFU) + (word >> 24);
}

// The four draws of one counter.
void draw_block(const Place& at, std::uint32_t block, std::uint32_t* draws) {
  const std::array<std::uint32_t, 4> words = philox({block, at.row, at.tensor, at.layer}, at.seed);
  for (std::size_t i = 0; i < words.size(); ++i) draws[i] = byte_sum(words[i]);
}

#if HWY_TARGET != HWY_SCALAR
using Words = hn::ScalableTag<std::uint64_t>;
using Halves = hn::Repartition<std::uint32_t, Words>;
using Lanes = hn::Vec<Words>;

HWY_INLINE Lanes product(Lanes a, std::uint64_t factor) {
  return hn::MulEven(hn::BitCast(Halves(), a), hn::BitCast(Halves(), hn::Set(Words(), factor)));
}

// Sums of the four low bytes of each lane; what stands above them is dropped.
HWY_INLINE Lanes byte_sums(Lanes words) {
  const auto pairs = hn::Set(Words(), 0x00FF00FFU);
  const auto sums = hn::Add(hn::And(words, pairs), hn::And(hn::ShiftRight<8>(words), pairs));
  return hn::And(hn::Add(sums, hn::ShiftRight<16>(sums)), hn::Set(Words(), 0xFFFFU));
}

// Draws of as many counters as a vector has lanes, from `block` on.
HWY_INLINE void draw_blocks(const Place& at, std::uint32_t block, std::uint32_t* draws) {
  const Words words;
  auto c0 = hn::Iota(words, block);
  auto c1 = hn::Set(words, at.row);
  auto c2 = hn::Set(words, at.tensor);
  auto c3 = hn::Set(words, at.layer);
  auto low_key = static_cast<std::uint32_t>(at.seed);
  auto high_key = static_cast<std::uint32_t>(at.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto first = product(c0, 0xD2511F53U);
    const auto second = product(c2, 0xCD9E8D57U);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(second), c1), hn::Set(words, low_key));
    c1 = second;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(first), c3), hn::Set(words, high_key));
    c3 = first;
    low_key += 0x9E3779B9U;
    high_key += 0xBB67AE85U;
  }
  const auto front = hn::Or(byte_sums(c0), hn::ShiftLeft<32>(byte_sums(c1)));
  const auto back = hn::Or(byte_sums(c2), hn::ShiftLeft<32>(byte_sums(c3)));
  hn::StoreInterleaved2(front, back, words, reinterpret_cast<std::uint64_t*>(draws));
}
#endif

// count blocks from `block` on.
void draw_whole_blocks(const Place& at, std::uint32_t block, std::size_t count, std::uint32_t* draws) {
  std::size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const std::size_t lanes = hn::Lanes(Words());
  for (; done + lanes <= count; done += lanes)
    draw_blocks(at, block + static_cast<std::uint32_t>(done), draws + 4 * done);
#endif
  for (; done < count; ++done) draw_block(at, block + static_cast<std::uint32_t>(done), draws + 4 * done);
}

}  // namespace

void draw_row(std::uint64_t seed, std::uint32_t layer, std::uint32_t tensor, std::uint32_t row,
              std::int64_t first_column, std::span<std::uint32_t> draws) {
  const Place at{seed, layer, tensor, row};
  auto block = static_cast<std::uint32_t>(first_column / 4);
  std::uint32_t edge[4];
  std::size_t done = 0;
  if (const auto skipped = static_cast<std::size_t>(first_column % 4); skipped > 0) {
    draw_block(at, block++, edge);
    done = std::min(draws.size(), 4 - skipped);
    std::copy_n(edge + skipped, done, draws.begin());
  }
  const std::size_t whole = (draws.size() - done) / 4;
  draw_whole_blocks(at, block, whole, draws.data() + done);
  done += 4 * whole;
  if (done == draws.size()) return;
  draw_block(at, block + static_cast<std::uint32_t>(whole), edge);
  std::copy_n(edge, draws.size() - done, draws.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetune {
HWY_EXPORT(draw_row);

void draw_row(std::uint64_t seed, std::uint32_t layer, std::uint32_t tensor, std::uint32_t row,
              std::int64_t first_column, std::span<std::uint32_t> draws) {
  HWY_DYNAMIC_DISPATCH(draw_row)(seed, layer, tensor, row, first_column, draws);
}

}  // namespace moetune
#endif  // HWY_ONCE
