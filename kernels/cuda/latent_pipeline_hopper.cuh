// The turns of attend_latent_hopper.cu where two tiles fit beside the queries, without a barrier of the whole block. The first warpgroup makes scores,
// weights and the left half of the result; the second one makes the right half of the turn before, while the first one is at its
// softmax and the tensor cores would have nothing to do, and fetches: a tile of a later turn goes where a half that both are done with
// lay. (The scheme of FlashMLA, with one tile more in flight and 64 positions a turn.) For that file only.
#pragma once

#include "kernels/cuda/latent_rows_hopper.cuh"
#include "kernels/cuda/quad.cuh"

namespace moetune::cuda::latent_hopper {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Named barriers between the two groups: one arrives, the other waits. 0 is __syncthreads().
enum class Sign : int {
  kWeights = 1,   // of a turn, and its factors, can be read
  kWeightsTaken,  // they may be written again
  kScored,        // the scores of a turn are there: the tensor cores are free
  kFirstHalf,     // of a tile can be read: columns [0, 256) and the rotated ones
  kSecondHalf,    // columns [256, 512)
  kLeftDone,      // the first half may be written again
  kRaw,           // of the second group alone: bytes have come, or been read
};
__device__ __forceinline__ void give(Sign sign) {
  asm volatile("bar.arrive %0, 256;" ::"r"(static_cast<int>(sign)) : "memory");
}
__device__ __forceinline__ void await(Sign sign) {
  asm volatile("bar.sync %0, 256;" ::"r"(static_cast<int>(sign)) : "memory");
}
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void fence_tile() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

inline constexpr int kHalfBlocks = 4;  // of 64 columns; behind both halves lies the block of the rotated columns

// Among the second group.
__device__ __forceinline__ void meet_in_group() {
  asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(Sign::kRaw)) : "memory");
}

// What a block attends to.
template <class Number>
struct Stretch {
  const Number* rows;
  const float* scales;  // int8: of the positions of the slot; else null
  std::int64_t stride;
  int first;   // position
  int end;     // behind the last one; more than first
  int stored;  // positions from here on are not read from the cache
  int fresh;   // the token's own position, which is not read either; -1: elsewhere
  __device__ __forceinline__ int turns() const { return (end - first + kPositions - 1) / kPositions; }
  __device__ __forceinline__ int start(int turn) const { return first + turn * kPositions; }
};

// How tiles come to where they are multiplied. A turn's tile goes where that of two turns before lay, in halves, as they are free.
//   begin(group)               what both groups ask for before anything else
//   settle(group)              the first tile is there for whoever passes the block's next barrier
//   start()                    by the second group, which has nothing else to do then
//   first_half(at, turn), second_half(at, turn)   by the second group, in this order, turn after turn; `at`: the tile's place
//   wait_for_first(), wait_for_second()           the next of those that were asked for has come
template <class Number>
class Tiles;

// Straight from the cache. By 128 threads.
template <>
class Tiles<__nv_bfloat16> {
 public:
  using Number = __nv_bfloat16;
  __device__ __forceinline__ Tiles(const Stretch<Number>& stretch, unsigned char* tiles, unsigned char*, float*)
      : stretch_(stretch), tiles_(static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles))) {}

  __device__ __forceinline__ void begin(int group) {  // each group a tile
    fetch<true>(group, group);
    fetch<false>(group, group);
  }
  __device__ __forceinline__ void settle(int group) {
    if (group == 0) wait_for_copies<0>();
  }
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ void first_half(int at, int turn) {
    fetch<true>(at, turn);
    // The second half's place is free later: until then it comes as far as the L2 cache.
    constexpr int kLines = kHalfBlocks * 64 * 2 / 128;  // of a row
    for (int i = static_cast<int>(threadIdx.x % 128); i < kPositions * kLines; i += 128)
      if (const int position = stretch_.start(turn) + i / kLines; position < stretch_.stored)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(stretch_.rows + position * stretch_.stride +
                                                      (kHalfBlocks + i % kLines) * 64));
  }
  __device__ __forceinline__ void second_half(int at, int turn) { fetch<false>(at, turn); }
  __device__ __forceinline__ void wait_for_first() { wait_for_copies<1>(); }
  __device__ __forceinline__ void wait_for_second() { wait_for_copies<1>(); }

 private:
  template <bool is_first>
  __device__ __forceinline__ void fetch(int at, int turn) {
    if (turn < stretch_.turns()) {
      const std::uint32_t tile = tiles_ + static_cast<std::uint32_t>(at * kRowsBytes);
      const auto thread = static_cast<int>(threadIdx.x % 128);
      const int piece = thread % 8;
      for (int row = thread / 8; row < kPositions; row += 16) {
        const int position = stretch_.start(turn) + row;
        if (position == stretch_.fresh) continue;
        const bool exists = position < stretch_.stored;
        const Number* from = stretch_.rows + (exists ? position : stretch_.first) * stretch_.stride + piece * 8;
        const std::uint32_t to = tile + static_cast<std::uint32_t>(row * 128 + (piece ^ (row % 8)) * 16);
#pragma unroll
        for (int i = 0; i < kHalfBlocks; ++i) {
          const int block = is_first ? i : kHalfBlocks + i;
          copy_or_zero(to + block * kBlockBytes, from + block * 64, exists);
        }
        if (is_first) copy_or_zero(to + 2 * kHalfBlocks * kBlockBytes, from + 2 * kHalfBlocks * 64, exists);
      }
    }
    commit_copies();  // also where there is nothing: groups are counted
  }

  Stretch<Number> stretch_;
  std::uint32_t tiles_;
};

// Bytes: one tile as it comes from the cache, widened to where it is multiplied. scales: of two tiles.
template <class Number>
class Tiles {
 public:
  __device__ __forceinline__ Tiles(const Stretch<Number>& stretch, unsigned char* tiles, unsigned char* raw, float* scales)
      : stretch_(stretch), tiles_(tiles), raw_(raw), scales_(scales) {}

  __device__ __forceinline__ void begin(int group) {
    if (group == 1) fetch(0);
  }
  __device__ __forceinline__ void settle(int group) {
    if (group == 0) return;
    first_half(0, 0);
    second_half(0, 0);
  }
  __device__ __forceinline__ void start() {
    first_half(1, 1);
    second_half(1, 1);
  }
  __device__ __forceinline__ void first_half(int at, int turn) {
    if (turn >= stretch_.turns()) return;
    wait_for_copies<0>();
    meet_in_group();
    widen<0, kHalfBlocks>(at, turn);
    widen<2 * kHalfBlocks, 1>(at, turn);
    if constexpr (kHasCacheScales<Number>)
      if (const auto row = static_cast<int>(threadIdx.x % 128); row < kPositions) {
        const int position = stretch_.start(turn) + row;
        if (position != stretch_.fresh)
          scales_[at * kPositions + row] = position < stretch_.stored ? __ldcg(stretch_.scales + position) : 0.0F;
      }
  }
  __device__ __forceinline__ void second_half(int at, int turn) {
    if (turn >= stretch_.turns()) return;
    widen<kHalfBlocks, kHalfBlocks>(at, turn);
    meet_in_group();  // all have read
    fetch(turn + 1);
  }
  __device__ __forceinline__ void wait_for_first() {}
  __device__ __forceinline__ void wait_for_second() {}

 private:
  __device__ __forceinline__ void fetch(int turn) {
    if (turn < stretch_.turns())
      fetch_raw(static_cast<std::uint32_t>(__cvta_generic_to_shared(raw_)), stretch_.rows, stretch_.stride, stretch_.start(turn),
                stretch_.stored, static_cast<int>(threadIdx.x % 128), 128);
  }
  template <int first_block, int blocks>
  __device__ __forceinline__ void widen(int at, int turn) {
    widen_blocks<128, first_block, blocks>(tiles_ + at * kRowsBytes, reinterpret_cast<const Number*>(raw_),
                                           stretch_.fresh - stretch_.start(turn));
  }

  Stretch<Number> stretch_;
  unsigned char* tiles_;
  unsigned char* raw_;
  float* scales_;
};

template <class Number, int first, int count, int query_block>
__device__ __forceinline__ void score_blocks(float (&score)[32], std::uint32_t queries, std::uint32_t tile, bool is_start) {
#pragma unroll
  for (int step = 0; step < 4 * count; ++step) {
    const int block = first + step / 4;
    score_step<Number>(score, along_columns(queries + static_cast<std::uint32_t>(block * query_block + step % 4 * 32)),
               along_columns(tile + static_cast<std::uint32_t>(block * kBlockBytes + step % 4 * 32)),
               is_start && step == 0 ? 0 : 1);
  }
}

// out = out * factor + weights * (one half of the tile)
template <class Number>
__device__ __forceinline__ void add_values(float (&out)[128], const uint4 (&weight)[4], const float (&factor)[2],
                                           std::uint32_t half, bool is_start) {
  if (!is_start)
#pragma unroll
    for (int j = 0; j < 32; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[4 * j + i] *= factor[i / 2];
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 4; ++step)
    value_step<Number>(out, weight[step], along_rows(half + static_cast<std::uint32_t>(step * 16 * 128)));
  wgmma_finish();
}

// Where the groups meet: weights of this thread, (4 steps) 128 apart; factors of its two heads, 8 apart; int8: scales of two tiles.
struct Meeting {
  uint4* weights;
  float* factors;
  const float* scales;
};

// The first group. top, sum: of its two heads; sum: this thread's positions.
template <int query_block, class Number>
__device__ __forceinline__ void score_turns(float (&out)[128], float (&top)[2], float (&sum)[2], const Stretch<Number>& at,
                                            const Meeting& meeting, std::uint32_t queries, std::uint32_t tiles) {
  constexpr bool kScaled = kHasCacheScales<Number>;
  const int turns = at.turns();
  const auto t = static_cast<int>(threadIdx.x % 4);
  for (int turn = 0; turn < turns; ++turn) {
    const std::uint32_t tile = tiles + static_cast<std::uint32_t>(turn % 2 * kRowsBytes);
    float score[32];
    if (turn > 0) await(Sign::kFirstHalf);
    wgmma_fence();
    score_blocks<Number, 0, kHalfBlocks, query_block>(score, queries, tile, true);
    score_blocks<Number, 2 * kHalfBlocks, 1, query_block>(score, queries, tile, false);
    commit_products();
    if (turn > 0) await(Sign::kSecondHalf);
    score_blocks<Number, kHalfBlocks, kHalfBlocks, query_block>(score, queries, tile, false);
    wgmma_finish();
    if (turn > 0) give(Sign::kScored);
    [[maybe_unused]] const float* scales = meeting.scales + turn % 2 * kPositions;
    if constexpr (kScaled)
#pragma unroll
      for (int i = 0; i < 32; ++i) score[i] *= scales[i / 4 * 8 + 2 * t + i % 2];
    if (turn == turns - 1)
#pragma unroll
      for (int i = 0; i < 32; ++i)
        if (at.start(turn) + i / 4 * 8 + 2 * t + i % 2 >= at.end) score[i] = kNothing;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = top[half];
#pragma unroll
      for (int j = 0; j < 8; ++j) most = fmaxf(most, fmaxf(score[4 * j + 2 * half], score[4 * j + 2 * half + 1]));
      most = quad_max(most);
      factor[half] = __expf(top[half] - most);
      top[half] = most;
      float part = 0.0F;
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          part += score[4 * j + i] = __expf(score[4 * j + i] - most);
          if constexpr (kScaled) score[4 * j + i] *= scales[8 * j + 2 * t + i % 2];
        }
      sum[half] = sum[half] * factor[half] + part;
    }
    uint4 weight[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const float* s = score + 8 * step;
      weight[step] = make_uint4(operands_of<Number>(s[0], s[1]), operands_of<Number>(s[2], s[3]),
                                operands_of<Number>(s[4], s[5]), operands_of<Number>(s[6], s[7]));
    }
    if (turn > 0) await(Sign::kWeightsTaken);
#pragma unroll
    for (int step = 0; step < 4; ++step) meeting.weights[128 * step] = weight[step];
    if (t == 0) meeting.factors[0] = factor[0], meeting.factors[8] = factor[1];
    give(Sign::kWeights);
    add_values<Number>(out, weight, factor, tile, turn == 0);
    if (turn + 1 < turns) give(Sign::kLeftDone);
  }
}

// The second group; the tile of turn 1 is on its way. put_fresh(which tile, row): the token's own row, which is in the last turn, by
// whoever has it.
template <class Number, class PutFresh>
__device__ __forceinline__ void value_turns(float (&out)[128], const Stretch<Number>& at, const Meeting& meeting,
                                            Tiles<Number>& source, std::uint32_t tiles, const PutFresh& put_fresh) {
  const int turns = at.turns();
  source.start();
  for (int turn = 0; turn < turns; ++turn) {
    await(Sign::kWeights);
    uint4 weight[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) weight[step] = meeting.weights[128 * step];
    const float factor[2] = {meeting.factors[0], meeting.factors[8]};
    const bool has_next = turn + 1 < turns;
    if (has_next) {
      give(Sign::kWeightsTaken);
      source.wait_for_first();
      if (at.fresh >= 0 && turn + 2 == turns) put_fresh((turn + 1) % 2, at.fresh - at.start(turn + 1));
      fence_tile();
      give(Sign::kFirstHalf);
      await(Sign::kLeftDone);
      source.first_half(turn % 2, turn + 2);
      source.wait_for_second();
      fence_tile();
      give(Sign::kSecondHalf);
      await(Sign::kScored);
    }
    add_values<Number>(out, weight, factor, tiles + static_cast<std::uint32_t>(turn % 2 * kRowsBytes + kHalfBlocks * kBlockBytes),
               turn == 0);
    if (has_next) source.second_half(turn % 2, turn + 2);
  }
}
#endif

}  // namespace moetune::cuda::latent_hopper
