// How the parts of a softmax are put together, within a block and across the blocks of a piece. What the plain and the
// tensor-core attention have in common. Start at finish_piece().
#pragma once

#include "kernels/cuda/attend.cuh"

namespace moetune::cuda {

inline constexpr float kNothing = -1e30F;  // a largest score before any: exp of differences stays finite

// No piece is shorter than this, so that short contexts are joined from few: how many there are now, a block finds out.
inline constexpr int kLeastPositions = 32;
inline constexpr int kMostPieces = 64;

struct Pieces {
  int count;       // capacity
  float* partial;  // (tokens, heads, count, value_width + 2): largest score, sum of weights, weighted values
  int* arrived;    // (tokens, head blocks), zeros before and after
};

// One thread a head: states of `count` parts into factors and the whole's sum.
template <int HB, int most, class StateOf>
__device__ __forceinline__ void join_states(int h, int count, float (&factors)[HB][most], float (&totals)[HB],
                                            float (&tops)[HB], const StateOf& state_of) {
  float top = kNothing;
#pragma unroll 4
  for (int i = 0; i < count; ++i) top = fmaxf(top, state_of(h, i).x);
  float total = 0.0F;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const float2 state = state_of(h, i);
    factors[h][i] = __expf(state.x - top);
    total += factors[h][i] * state.y;
  }
  totals[h] = total;
  tops[h] = top;
}

// How the positions a token sees are cut now.
struct Cut {
  int begin;   // first position seen
  int each;    // positions a piece
  int active;  // pieces with positions
  int end;     // behind the last position seen
};
__device__ __forceinline__ Cut cut_of(const AttendShape& shape, int last, int pieces, int least) {
  const int begin = shape.window > 0 ? max(0, last - shape.window + 1) : 0;
  const int each = max(least, (last + 1 - begin + pieces - 1) / pieces);
  return {begin, each, (last + 1 - begin + each - 1) / each, last + 1};
}

// Two neighbouring numbers where widths are even, else one.
template <bool kIsPair>
struct Numbers {
  float v[kIsPair ? 2 : 1];

  static __device__ __forceinline__ Numbers from(const float* at) {
    if constexpr (kIsPair) {
      const float2 two = *reinterpret_cast<const float2*>(at);
      return {two.x, two.y};
    } else {
      return {*at};
    }
  }
  // Past the L1 cache: other blocks wrote it.
  static __device__ __forceinline__ Numbers from_l2(const float* at) {
    if constexpr (kIsPair) {
      const float2 two = __ldcg(reinterpret_cast<const float2*>(at));
      return {two.x, two.y};
    } else {
      return {__ldcg(at)};
    }
  }
  __device__ __forceinline__ void add(float factor, const Numbers& other) {
#pragma unroll
    for (int i = 0; i < (kIsPair ? 2 : 1); ++i) v[i] += factor * other.v[i];
  }
  __device__ __forceinline__ void store(float* to, float divisor) const {
#pragma unroll
    for (int i = 0; i < (kIsPair ? 2 : 1); ++i) to[i] = v[i] / divisor;
  }
};

// kWidth: the value width where it is known when compiling, else 0.
// parts: (kGroups, HB, value_width + 2) in shared memory: largest score, sum of weights, weighted values of each group of this
// block; not yet synchronised. All threads of the block take part.
template <int kGroups, int HB, int kWidth>
__device__ __forceinline__ void finish_piece(const AttendShape& shape, const AttendInputs& in, const Pieces& pieces,
                                             int token, int first_head, int head_count, int active, float* parts) {
  using Some = Numbers<kWidth != 0>;
  constexpr int kSome = kWidth != 0 ? 2 : 1;
  const int width = kWidth != 0 ? kWidth : shape.value_width;
  const int stride = width + 2;
  const auto items = head_count * (width / kSome);
  // What each group's (later: piece's) sums are multiplied by, and the sum of weights, per head.
  __shared__ float factors[HB][kMostPieces];
  __shared__ float totals[HB];
  __shared__ float tops[HB];
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < head_count)
    join_states(static_cast<int>(threadIdx.x), kGroups, factors, totals, tops,
                [&](int h, int g) { return make_float2(parts[(g * HB + h) * stride], parts[(g * HB + h) * stride + 1]); });
  __syncthreads();
  for (int item = static_cast<int>(threadIdx.x); item < items; item += static_cast<int>(blockDim.x)) {
    const int h = item / (width / kSome);
    const int column = item % (width / kSome) * kSome;
    Some weighted{};
#pragma unroll
    for (int g = 0; g < kGroups; ++g) weighted.add(factors[h][g], Some::from(parts + (g * HB + h) * stride + 2 + column));
    const int head = first_head + h;
    if (active == 1) {
      weighted.store(in.y + token * in.y_strides.token + head * in.y_strides.head + column, totals[h]);
      continue;
    }
    float* to =
        pieces.partial + ((std::int64_t{token} * shape.heads + head) * pieces.count + blockIdx.x) * stride;
    weighted.store(to + 2 + column, 1.0F);
    if (column == 0) to[0] = tops[h], to[1] = totals[h];
  }
  if (active == 1) return;

  // The block that finishes last joins the pieces of its heads.
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    int* arrived = pieces.arrived + token * gridDim.y + blockIdx.y;
    is_last = arrive(arrived) == active - 1;
    if (is_last) *arrived = 0;
  }
  __syncthreads();
  if (!is_last) return;
  const float* partial = pieces.partial + (std::int64_t{token} * shape.heads + first_head) * pieces.count * stride;
  // Largest scores and sums to shared memory first: one wait for all of them.
  auto* states = reinterpret_cast<float2*>(parts);  // (HB, active)
  for (int item = static_cast<int>(threadIdx.x); item < head_count * active; item += static_cast<int>(blockDim.x)) {
    const float* from = partial + (item / active * pieces.count + item % active) * stride;
    states[item] = make_float2(__ldcg(from), __ldcg(from + 1));
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < head_count)
    join_states(static_cast<int>(threadIdx.x), active, factors, totals, tops,
                [&](int h, int piece) { return states[h * active + piece]; });
  __syncthreads();
  for (int item = static_cast<int>(threadIdx.x); item < items; item += static_cast<int>(blockDim.x)) {
    const int h = item / (width / kSome);
    const int column = item % (width / kSome) * kSome;
    const float* from = partial + h * pieces.count * stride + 2 + column;
    Some weighted{};
#pragma unroll 8
    for (int piece = 0; piece < active; ++piece) weighted.add(factors[h][piece], Some::from_l2(from + piece * stride));
    weighted.store(in.y + token * in.y_strides.token + (first_head + h) * in.y_strides.head + column, totals[h]);
  }
}

// Pieces for this many blocks' worth of heads: enough for two blocks a multiprocessor, each at least `least` positions.
// Takes scratch memory.
Pieces make_pieces(Cuda& cuda, const AttendShape& shape, int head_blocks, int least);

}  // namespace moetune::cuda
