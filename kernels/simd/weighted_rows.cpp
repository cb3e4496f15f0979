// Start at add_weighted_rows() at the end; add_tile() is the loop in which the time is spent: a few columns
// of a few heads stay in registers while it walks down the rows.
#include "kernels/simd/weighted_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/weighted_rows.cpp"
#include "hwy/foreach_target.h"

// Only after foreach_target.h, which compiles this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/simd/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kTileHeads = 4;
// Heads go over a block of rows tile by tile; the block should still be in the cache for the next tile.
constexpr std::int64_t kBlockRows = 32;

// Adds to kColumns vectors of columns, from `column` on, of kHeads heads.
template <class Decode, std::int64_t kHeads, std::int64_t kColumns>
void add_tile(const WeightedRows& work, std::int64_t row_begin, std::int64_t row_end, std::int64_t head,
              std::int64_t column) {
  const Floats floats;
  Vector sums[kHeads][kColumns];
#pragma GCC unroll 16
  for (std::int64_t h = 0; h < kHeads; ++h)
#pragma GCC unroll 16
    for (std::int64_t c = 0; c < kColumns; ++c)
      sums[h][c] = hn::LoadU(floats, work.y[head + h] + column + c * kLanes);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const std::byte* values = work.rows.row_values(row) + column * Decode::kBytes;
    Vector decoded[kColumns];
#pragma GCC unroll 16
    for (std::int64_t c = 0; c < kColumns; ++c)
      decoded[c] = Decode::load(values + c * kLanes * Decode::kBytes);
#pragma GCC unroll 16
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const Vector weight = hn::Set(floats, work.weights[head + h][row]);
#pragma GCC unroll 16
      for (std::int64_t c = 0; c < kColumns; ++c) sums[h][c] = hn::MulAdd(weight, decoded[c], sums[h][c]);
    }
  }
#pragma GCC unroll 16
  for (std::int64_t h = 0; h < kHeads; ++h)
#pragma GCC unroll 16
    for (std::int64_t c = 0; c < kColumns; ++c)
      hn::StoreU(sums[h][c], floats, work.y[head + h] + column + c * kLanes);
}

// The last columns, fewer than a vector.
template <class Decode, std::int64_t kHeads>
void add_rest(const WeightedRows& work, std::int64_t row_begin, std::int64_t row_end, std::int64_t head,
              std::int64_t column) {
  const std::int64_t count = work.rows.layout.in - column;
  const Floats floats;
  Vector sums[kHeads];
  for (std::int64_t h = 0; h < kHeads; ++h)
    sums[h] = load_some<DecodeF32>(reinterpret_cast<const std::byte*>(work.y[head + h] + column), count);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const Vector decoded = load_some<Decode>(work.rows.row_values(row) + column * Decode::kBytes, count);
    for (std::int64_t h = 0; h < kHeads; ++h)
      sums[h] = hn::MulAdd(hn::Set(floats, work.weights[head + h][row]), decoded, sums[h]);
  }
  for (std::int64_t h = 0; h < kHeads; ++h) store_some(sums[h], work.y[head + h] + column, count);
}

template <class Decode, std::int64_t kHeads>
void add_heads(const WeightedRows& work, std::int64_t row_begin, std::int64_t row_end, std::int64_t head) {
  constexpr std::int64_t kColumns = kHeads <= 2 ? 4 : 2;  // at least four independent chains of multiply-adds
  const std::int64_t width = work.rows.layout.in;
  std::int64_t column = 0;
  for (; column + kColumns * kLanes <= width; column += kColumns * kLanes)
    add_tile<Decode, kHeads, kColumns>(work, row_begin, row_end, head, column);
  for (; column + kLanes <= width; column += kLanes)
    add_tile<Decode, kHeads, 1>(work, row_begin, row_end, head, column);
  if (column < width) add_rest<Decode, kHeads>(work, row_begin, row_end, head, column);
}

template <class Decode>
void add_rows(const WeightedRows& work) {
  for (std::int64_t begin = work.row_begin; begin < work.row_end; begin += kBlockRows) {
    const std::int64_t end = std::min(begin + kBlockRows, work.row_end);
    std::int64_t head = 0;
    for (; head + kTileHeads <= work.heads; head += kTileHeads)
      add_heads<Decode, kTileHeads>(work, begin, end, head);
    if (work.heads - head == 1) add_heads<Decode, 1>(work, begin, end, head);
    if (work.heads - head == 2) add_heads<Decode, 2>(work, begin, end, head);
    if (work.heads - head == 3) add_heads<Decode, 3>(work, begin, end, head);
  }
}

void add_weighted_rows(const WeightedRows& work) {
  switch (work.rows.layout.type) {
    case NumberType::f32:
      return add_rows<DecodeF32>(work);
    case NumberType::f16:
      return add_rows<DecodeF16>(work);
    case NumberType::bf16:
      return add_rows<DecodeBf16>(work);
    default:
      throw std::invalid_argument("no weighted sums of rows stored as " +
                                  std::string(name_of(work.rows.layout.type)));
  }
}

}  // namespace
}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetune {
HWY_EXPORT(add_weighted_rows);

void add_weighted_rows(const WeightedRows& work) { HWY_DYNAMIC_DISPATCH(add_weighted_rows)(work); }

}  // namespace moetune
#endif  // HWY_ONCE
