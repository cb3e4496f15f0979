// What becomes of an item's sums, the same for wgmma and mma.sync: a lane holds, for a group of eight columns, rows g and g + 8
// of its warp's operand and columns 2 t and 2 t + 1 (g = lane / 4, t = lane % 4). Device code only.
#pragma once

#include "kernels/cuda/prompt_gemm.cuh"

namespace moetune::cuda {

// The scale of an int8 row stands behind its tile's chunks.
template <NumberType type>
__device__ __forceinline__ float row_scale_of(const PromptMatrix& matrix, std::int64_t slot_offset, int row) {
  if constexpr (type == NumberType::int8)
    if (row < matrix.out)
      return reinterpret_cast<const float*>(matrix.tiles + slot_offset + row / 16 * matrix.tile_bytes +
                                            std::int64_t{matrix.chunks} * TileSteps<type>::kChunkBytes)[row % 16];
  return 1.0F;
}

// Sums of one warp to rows of f32: eight neighbouring rows of weights are one sector of a result's row.
template <NumberType type>
class StoreSums {
 public:
  __device__ __forceinline__ StoreSums(const PromptGemm& op, const PromptItem& item, int warp)
      : matrix_(op.part[part_of(op, item.row_item)]),
        pairs_(op.host_plan != nullptr ? op.plan.pair_of_row : nullptr),
        item_(item),
        accumulates_(op.accumulates) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      row_[side] = (item.row_item - matrix_.first_item) * kItemRows + warp * 16 + side * 8 + lane / 4;
      scale_[side] = row_scale_of<type>(matrix_, item.slot_offset, row_[side]);
      bias_[side] = matrix_.bias != nullptr && row_[side] < matrix_.out ? matrix_.bias[row_[side]] : 0.0F;
    }
  }
  // c: of the groups of columns that begin at `first`. All that is read is read before the first is written: one after the
  // other each would wait for memory. Columns from `end` on are somebody else's.
  template <int groups>
  __device__ __forceinline__ void put(int first, const float (&c)[groups][4], int end) const {
    float* to[groups][2];
#pragma unroll
    for (int n = 0; n < groups; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first + 8 * n + static_cast<int>(threadIdx.x % 4) * 2 + i;
        const int row = item_.first + min(column, item_.columns - 1);
        to[n][i] = column < end ? matrix_.y.row(pairs_ != nullptr ? pairs_[row] : row) : nullptr;
      }
    float before[groups][4] = {};
    if (accumulates_) {
#pragma unroll
      for (int n = 0; n < groups; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (to[n][i % 2] != nullptr && row_[i / 2] < matrix_.out) before[n][i] = to[n][i % 2][row_[i / 2]];
    }
#pragma unroll
    for (int n = 0; n < groups; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (to[n][i % 2] != nullptr && row_[i / 2] < matrix_.out)
          to[n][i % 2][row_[i / 2]] = before[n][i] + (c[n][i] * scale_[i / 2] + bias_[i / 2]);
  }

 private:
  const PromptMatrix& matrix_;
  const std::int32_t* pairs_;
  const PromptItem& item_;
  bool accumulates_;
  int row_[2];
  float scale_[2];
  float bias_[2];
};

// silu(gate) * up of one warp's eight features into a block of activations in shared memory, (parts, columns of the item,
// 128 bytes); `part_bytes` between the parts.
template <NumberType type>
class StageActivated {
 public:
  __device__ __forceinline__ StageActivated(const PromptGemm& op, const PromptItem& item, int warp, unsigned char* to, int part_bytes)
      : to_(to), part_bytes_(part_bytes), parts_(op.activated.parts) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int feature = warp * 8 + lane / 4;  // of the block
    const int row = item.row_item * kBlockColumns + feature;
    exists_ = row < op.part[0].out;
    gate_scale_ = row_scale_of<type>(op.part[0], item.slot_offset, row);
    up_scale_ = row_scale_of<type>(op.part[1], item.slot_offset, row);
    const int place = place_of(feature / 2 * 2, op.activated.is_wide);
    piece_ = place / 8;
    word_ = place % 8 / 2;
  }
  template <int groups>
  __device__ __forceinline__ void put(int first, const float (&c)[groups][4], int end) const {
#pragma unroll
    for (int n = 0; n < groups; ++n)
      if (first + 8 * n < end) put_group(first + 8 * n, c[n]);
  }

 private:
  // All lanes together: neighbours exchange, so that each stores two features of one column.
  __device__ __forceinline__ void put_group(int first, const float (&c)[4]) const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    float v[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float gate = c[i] * gate_scale_;
      v[i] = exists_ ? gate / (1.0F + __expf(-gate)) * (c[2 + i] * up_scale_) : 0.0F;  // also the padding that down reads
    }
    const bool is_odd = lane / 4 % 2 != 0;
    const float got = __shfl_xor_sync(0xFFFFFFFFU, is_odd ? v[0] : v[1], 4);
    const int column = first + lane % 4 * 2 + (is_odd ? 1 : 0);
    const float low = is_odd ? got : v[0];
    const float high = is_odd ? v[1] : got;
    const std::uint32_t bits = pack2(low, high);
    unsigned char* at = to_ + column * kBlockRowBytes + (piece_ ^ column % 8) * 16 + word_ * 4;
    *reinterpret_cast<std::uint32_t*>(at) = bits;
    if (parts_ == 2)
      *reinterpret_cast<std::uint32_t*>(at + part_bytes_) =
          pack2(low - __uint_as_float(bits << 16), high - __uint_as_float(bits & 0xFFFF0000U));
  }

  unsigned char* to_;
  int part_bytes_;
  int parts_;
  bool exists_;
  float gate_scale_;
  float up_scale_;
  int piece_;
  int word_;
};

}  // namespace moetune::cuda
