// Down of one token's choices and their weighted sum, or of up to four tokens that all take the same weights.
// A block takes neighbouring tiles of the result and all choices; its warps share the chunks of each choice.
//
//   DownResults results(...);
//   down_tiles<type>(part, ..., [&] { results.ask(); }, [] { __syncthreads(); });   // every warp of the part
//   __syncthreads();
//   results.add(sums, warps);
#pragma once

#include "kernels/cuda/few_product.cuh"
#include "kernels/cuda/few_slots.cuh"
#include "kernels/few_plan.h"

namespace moetune::cuda {

// What some warps of each block work on.
struct DownPart {
  FfnWork work;
  FewShape shape;
  int splits;  // warps that share a choice
};

// Where a block's sums go. Of a thread: a row and token of every `tiles_at_once`th tile.
class DownResults {
 public:
  __device__ __forceinline__ DownResults(int out, int tokens, Rows y, int first, int end)
      : out_(out), tokens_(tokens), y_(y), first_(first), end_(end) {}

  // What the first is added to is asked for now: it would be waited for at the end.
  __device__ __forceinline__ void ask() {
    to_ = place(first_ + thread() / kOfTile);
    before_ = to_ != nullptr ? *to_ : 0.0F;
  }
  // sums: (tile, warp, token, row).
  __device__ __forceinline__ void add(const float* sums, int warps) {
    for (int tile = first_ + thread() / kOfTile; tile < end_; tile += tiles_at_once()) {
      if (to_ != nullptr) {
        const float* from = sums + (tile - first_) * warps * tokens_ * 16 + thread() % kOfTile;
        float total = 0.0F;
#pragma unroll 4
        for (int other = 0; other < warps; ++other) total += from[other * tokens_ * 16];
        *to_ = before_ + total;
      }
      to_ = place(tile + tiles_at_once());
      before_ = to_ != nullptr ? *to_ : 0.0F;
    }
  }

 private:
  static constexpr int kOfTile = kFewTokens * 16;
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int tiles_at_once() { return static_cast<int>(blockDim.x) / kOfTile; }
  __device__ __forceinline__ float* place(int tile) const {
    const int row = tile * 16 + thread() % 16;
    const int token = thread() % kOfTile / 16;
    const bool exists = token < tokens_ && tile < end_ && row < out_ && thread() < tiles_at_once() * kOfTile;
    return exists ? y_.row(token) + row : nullptr;
  }

  int out_;
  int tokens_;
  Rows y_;
  int first_;
  int end_;
  float* to_ = nullptr;
  float before_ = 0.0F;
};

// Of a block, whose part of the work this warp has.
struct DownPlace {
  int warp;   // of those of the part
  int warps;  // of the part
  int first;  // tile
  int end;
  int sums_of_tile;  // floats from the sums of one tile to those of the next
};

// So many warps, all of them whole, come to the barrier of this number, 1 to 15: __syncthreads() must not be
// reached in two places of the code at once.
__device__ __forceinline__ void sync_warps(int barrier, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(32 * warps) : "memory");
}

// staged: where the part's activations go; sums: of the part's first warp. What comes from memory that other
// kernels write is asked for in after_wait. sync_part: a barrier of the part's warps, all of which come here.
template <NumberType type, class AfterWait, class SyncPart>
__device__ __forceinline__ void down_tiles(const DownPart& part, Rows weights, const DownPlace& at_work,
                                           unsigned char* staged, float* sums, const AfterWait& after_wait,
                                           const SyncPart& sync_part) {
  constexpr int kHeld = 4;  // chunks that a warp has under way
  using Held = HeldChunk<type>;
  const FfnWork& work = part.work;
  const FewShape& shape = part.shape;
  const FfnTiles& tiles = work.down;
  const int splits = part.splits;
  const int warp = at_work.warp;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int choice = warp / splits;
  const int tokens = shape.tokens;
  const int each = (tiles.chunks + splits - 1) / splits;
  const int first_chunk = (warp - choice * splits) * each;
  const int mine = min(each, tiles.chunks - first_chunk);  // may be none
  const int steps = (each + kHeld - 1) / kHeld * kHeld;
  const int first = at_work.first;
  const int end = at_work.end;
  // Who goes where was settled before gate_up let us start, and weights are never written: they are on their
  // way while gate_up still runs. Only the activations must be waited for.
  const SlotQuestion asked = ask_slot(work.entries, min(choice, work.entries.count - 1));
  const unsigned char* slot = choice < work.entries.count ? slot_of(asked, work, tiles.data) : nullptr;
  const unsigned char* row_scales =
      slot + first * tiles.tile_bytes + std::int64_t{tiles.chunks} * Held::kBytes;
  const unsigned char* at = slot + first * tiles.tile_bytes + first_chunk * Held::kBytes + lane * 16;
  int ahead_tile = slot != nullptr ? first : end;
  int ahead_step = 0;
  Held held[kHeld];
  const auto fetch = [&](int i) {
    if (ahead_tile < end && ahead_step + i < mine) held[i].fetch(at + i * Held::kBytes, row_scales);
    if (i < kHeld - 1) return;
    at += kHeld * Held::kBytes;
    ahead_step += kHeld;
    if (ahead_step < steps) return;
    at += tiles.tile_bytes - steps * Held::kBytes;
    row_scales += tiles.tile_bytes;
    ahead_step = 0;
    ++ahead_tile;
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) fetch(i);
  let_next_start();
  wait_for_previous();
  after_wait();
  FewColumns<type> columns(staged, shape, warp, at_work.warps);
  const float my_weight = weights.data != nullptr && lane < work.entries.count ? weights.row(0)[lane] : 1.0F;
  columns.template stage<3>(
      warp, tiles.in,
      [&](int place) {
        return reinterpret_cast<const float*>(work.activated) + place * work.activated_stride;
      },
      [&](int place) { return __shfl_sync(0xFFFFFFFFU, my_weight, place); });
  sync_part();
  const int first_unit = choice * columns.units_of_row() + first_chunk;
  typename FewColumns<type>::Fragment x;
  if (mine > 0 && slot != nullptr) columns.load(x, first_unit);
  for (int tile = first; tile < end; ++tile) {
    FewSums<type> sum;
    for (int step = 0; step < steps; step += kHeld) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (slot != nullptr && step + i < mine) {
          held[i].multiply(sum, x);
          columns.load(x, first_unit + (step + i + 1 < mine ? step + i + 1 : 0));
        }
        fetch(i);
      }
    }
    float* of_tile = sums + (tile - first) * at_work.sums_of_tile;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        of_tile[(warp * tokens + lane % 4) * 16 + lane / 4 + 8 * half] = sum.of(half);
  }
}

}  // namespace moetune::cuda
