// Queries of a block of heads as operands in shared memory, and the token's own key and value where they are
// not in the cache yet: normed, rotated, rounded as they will be there. Start at stage_heads().
#pragma once

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/cache_number.cuh"

namespace moetune::cuda {

// A head's row, a warp wide: column lane + 32 i.
template <int width>
struct HeadRow {
  static constexpr int kColumns = width / 32;
  float v[kColumns];

  __device__ __forceinline__ void load(const float* from) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) v[i] = from[threadIdx.x % 32 + 32 * i];
  }
  __device__ __forceinline__ void normalize(const HeadRow& weight, float eps) {
    float squares = 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) squares += v[i] * v[i];
    const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(width) + eps);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) v[i] *= inverse * weight.v[i];
  }
  __device__ __forceinline__ void rotate(const float (&cosine)[kColumns / 2],
                                         const float (&sine)[kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const float first = v[i];
      const float second = v[i + kColumns / 2];
      v[i] = first * cosine[i] - second * sine[i];
      v[i + kColumns / 2] = second * cosine[i] + first * sine[i];
    }
  }
  __device__ __forceinline__ float largest() const {
    float most = 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) most = fmaxf(most, fabsf(v[i]));
    return warp_max(most);
  }
};

// Which heads of which token.
struct HeadsPlace {
  int token;
  int last;  // the token's position
  int kv_head;
  int first_head;
  int head_count;
  bool has_fresh;  // this block attends to the token's own row
};

// In shared memory.
template <int width, int heads, class Number>
struct HeadRows {
  Operand<Number> (&queries)[heads][width + 8];
  Number (&fresh)[2][width];  // the token's own key and value
  float (&fresh_scale)[2];
};

// By all `warps` warps of a block; a barrier must follow. wait: for the kernels before this one, called where
// they are asked for something and in.placing.is_asked.
template <int warps, int width, int heads, class Number, class Wait>
__device__ __forceinline__ void stage_heads(const HeadRows<width, heads, Number>& to,
                                            const AttendShape& shape, const AttendInputs& in,
                                            const HeadsPlace& at, const Wait& wait) {
  using Row = HeadRow<width>;
  constexpr bool kScaled = kHasCacheScales<Number>;
  constexpr int kHeads = heads;
  constexpr int kWarps = warps;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const AttendPlacing& placing = in.placing;
  float cosine[Row::kColumns / 2];
  float sine[Row::kColumns / 2];
  Row query_norm;
  Row key_norm;
  if (placing.is_asked) {
    if (placing.query_norm != nullptr) query_norm.load(placing.query_norm);
    if (placing.key_norm != nullptr) key_norm.load(placing.key_norm);
    if (placing.frequencies != nullptr)
#pragma unroll
      for (int i = 0; i < Row::kColumns / 2; ++i) {
        // Not __sincosf: at position 100,000 its argument reduction is off by more than bf16 can hide.
        sincosf(static_cast<float>(at.last) * placing.frequencies[lane + 32 * i], &sine[i], &cosine[i]);
        sine[i] *= placing.rope_scale;
        cosine[i] *= placing.rope_scale;
      }
    wait();
  }
  // Rows 0 .. 15: queries; 16, 17: the new key and value.
  constexpr int kTurns = (kHeads + 2 + kWarps - 1) / kWarps;
  Row rows[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int task = warp + kWarps * turn;
    if (task < at.head_count)
      rows[turn].load(in.q + at.token * in.q_strides.token + (at.first_head + task) * in.q_strides.head);
    else if (at.has_fresh && task == kHeads)
      rows[turn].load(placing.new_keys + at.token * placing.new_key_strides.token +
                      at.kv_head * placing.new_key_strides.head);
    else if (at.has_fresh && task == kHeads + 1)
      rows[turn].load(placing.new_values + at.token * placing.new_value_strides.token +
                      at.kv_head * placing.new_value_strides.head);
  }
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int task = warp + kWarps * turn;
    Row& row = rows[turn];
    if (task < kHeads) {
      const bool exists = task < at.head_count;
      if (exists && placing.is_asked) {
        if (placing.query_norm != nullptr) row.normalize(query_norm, placing.eps);
        if (placing.frequencies != nullptr) row.rotate(cosine, sine);
      }
#pragma unroll
      for (int i = 0; i < Row::kColumns; ++i)
        to.queries[task][lane + 32 * i] = operand_of<Number>(exists ? row.v[i] * shape.scale : 0.0F);
    } else if (at.has_fresh && task < kHeads + 2) {
      const int which = task - kHeads;
      if (which == 0) {
        if (placing.key_norm != nullptr) row.normalize(key_norm, placing.eps);
        if (placing.frequencies != nullptr) row.rotate(cosine, sine);
      }
      float scale = 0.0F;
      if constexpr (kScaled) scale = cache_scale(row.largest());
#pragma unroll
      for (int i = 0; i < Row::kColumns; ++i)
        to.fresh[which][lane + 32 * i] = cached<Number>(row.v[i], scale);
      if (kScaled && lane == 0) to.fresh_scale[which] = scale;
    }
  }
}

}  // namespace moetune::cuda
