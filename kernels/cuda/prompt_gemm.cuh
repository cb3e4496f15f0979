// Products of a prompt: weights in tiles as operand A, gathered activations (prompt_rows.cuh) as operand B,
// for the experts of a plan one after the other or for one matrix and all tokens. An item is 128 rows of
// weights and up to 256 columns (rows of activations) of one expert; blocks stay and walk over the items, all
// columns of the same weights together, so that weights come from memory once. Two kernels: prompt_hopper.cuh
// (wgmma) and prompt_portable.cu (mma.sync). Start at prompt_gemm().
#pragma once

#include "kernels/cuda/prompt_rows.cuh"
#include "kernels/weight_matrix.h"

namespace moetune::cuda {

inline constexpr int kItemRows = 128;  // of weights: eight tiles
inline constexpr int kItemTiles = kItemRows / 16;

struct PromptMatrix {
  const unsigned char* tiles;  // of slot 0
  std::int64_t tile_bytes;
  int chunks;
  int out;
  int first_item;     // items of rows before this part
  const float* bias;  // null: none
  Rows y;             // where the sums go; with a plan the row is the pair's number
};

struct PromptGemm {
  static constexpr int kMostParts = 3;
  PromptRows x;
  const PromptPlan* host_plan;  // null: every row of x, one matrix
  PromptPlan plan;              // set from host_plan
  int tokens;                   // rows where there is no plan
  int entries;                  // capacity of the plan; 1 without
  std::int64_t slot_bytes;
  int most_columns;  // of an item, as the plan has cut them: 256, or 128 where x has two parts
  int row_items;     // items along the weights' rows, of all parts
  // is_gated: part 0 is gate, part 1 up, and activated = silu(gate) * up, blocks for the next product. Else
  // up to three matrices that read the same rows.
  bool is_gated;
  int parts;
  PromptMatrix part[kMostParts];
  PromptRows activated;
  bool accumulates;
};

// Columns an item may have on this GPU; tokens: as many an expert can have.
int most_columns_for(Cuda& cuda, int parts, int tokens);
// The same where one matrix serves all tokens: as many as let the multiprocessor with the most items be
// done soonest.
int most_columns_of_all(Cuda& cuda, int parts, int tokens, int row_items);

// A matrix as one part; appends it to op and counts its items.
void add_part(PromptGemm& op, const MatrixLayout& layout, const void* data, const float* bias, Rows y);

// Throws std::invalid_argument for a type without tiles.
void prompt_gemm(Cuda& cuda, NumberType type, PromptGemm op);

#ifdef __CUDACC__

struct PromptItem {
  int row_item;
  std::int64_t slot_offset;
  int first;    // row of x
  int columns;  // rows of x
};

// The items of a block, in order: index, index + step, ...
class PromptWalk {
 public:
  __device__ __forceinline__ PromptWalk(const PromptGemm& op, int index, int step)
      : op_(op), index_(index), step_(step) {
    is_planned_ = op.host_plan != nullptr;
    entries_ = is_planned_ ? *op.plan.count : 1;
    end_ = is_planned_ ? (entries_ > 0 ? op.plan.column_first[1] : 0)
                       : (op.tokens + op.most_columns - 1) / op.most_columns;
  }
  __device__ __forceinline__ bool next(PromptItem& item) {
    while (index_ >= end_ * op_.row_items) {
      if (++entry_ >= entries_) return false;
      begin_ = end_;
      end_ = op_.plan.column_first[entry_ + 1];
    }
    const int tiles = end_ - begin_;
    const int local = index_ - begin_ * op_.row_items;
    const int count = is_planned_ ? op_.plan.row_count[entry_] : op_.tokens;
    const int each = ((count + tiles - 1) / tiles + 7) / 8 * 8;
    item.row_item = local / tiles;
    const int first = local % tiles * each;
    item.first = (is_planned_ ? op_.plan.row_first[entry_] : 0) + first;
    item.columns = min(each, count - first);
    item.slot_offset = is_planned_ ? op_.plan.slots[entry_] * op_.slot_bytes : 0;
    index_ += step_;
    return true;
  }

 private:
  const PromptGemm& op_;
  int index_;
  int step_;
  bool is_planned_;
  int entries_;
  int entry_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

__device__ __forceinline__ int part_of(const PromptGemm& op, int row_item) {
  int part = 0;
  while (part + 1 < op.parts && row_item >= op.part[part + 1].first_item) ++part;
  return part;
}

// Tile i (0 .. 7) of an item: where it starts; null: beyond the matrix.
__device__ __forceinline__ const unsigned char* tile_of(const PromptGemm& op, const PromptItem& item, int i) {
  int index = op.is_gated ? i / 4 : part_of(op, item.row_item);
  const PromptMatrix& matrix = op.part[index];
  const int tile =
      op.is_gated ? item.row_item * 4 + i % 4 : (item.row_item - matrix.first_item) * kItemTiles + i;
  return tile * 16 < matrix.out ? matrix.tiles + item.slot_offset + tile * matrix.tile_bytes : nullptr;
}

// Columns of a step: a block of activations. Four-bit tiles hold two steps in a chunk, 16-bit tiles two
// chunks in a step.
template <NumberType type>
struct TileSteps {
  using F = Format<type>;
  static constexpr int kChunkBytes = 1024 + F::kScaleBytes;
  static constexpr int kChunksPerStep = F::kChunk == 32 ? 2 : 1;
  static constexpr int kStepsPerChunk = F::kChunk == 128 ? 2 : 1;
  static constexpr int kStageBytes = kChunksPerStep * kChunkBytes;  // of one tile
};

// A warp's rows of an item: rows g and g + 8 of its operand are row g of `upper` and of `lower`, half tiles
// each (g = lane / 4). With gates, upper is gate and lower is up, so that a lane holds both sums of a
// feature.
struct WarpRows {
  int tile[2];  // of the item, of upper and lower
  int half[2];

  __device__ __forceinline__ static WarpRows of(bool is_gated, int warp) {
    if (is_gated) return {{warp / 2, 4 + warp / 2}, {warp % 2, warp % 2}};
    return {{warp, warp}, {0, 1}};
  }
};

template <NumberType type>
__device__ __forceinline__ float tile_scale(const unsigned char* scales, int group, int row) {
  if constexpr (type == NumberType::int4 || type == NumberType::int4_g32)
    return __half2float(reinterpret_cast<const __half*>(scales)[group * 16 + row]);
  else if constexpr (type == NumberType::mxfp4) {
    const unsigned bits = scales[group * 16 + row];
    return __uint_as_float(bits == 0 ? 0x00400000U : bits << 23);  // e8m0 is a float's exponent; 0 is 2^-127
  } else if constexpr (type == NumberType::fp8)
    return *reinterpret_cast<const float*>(scales);
  return 1.0F;
}

// value * (high + low), rounded once.
__device__ __forceinline__ std::uint32_t scaled2(std::uint32_t value, std::uint32_t high, std::uint32_t low) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(value), "r"(high), "r"(multiply2(value, low)));
  return d;
}

// A warp's weights of one step as operand A of its four products, in two halves of two products each; scales
// are applied but for that of an int8 row, which is left to the sums.
template <NumberType type>
class WeightFragments {
 public:
  using F = Format<type>;
  using T = TileSteps<type>;

  // stage: (8 tiles, T::kStageBytes) in shared memory. kIsSecond: the step is the second of a chunk, whose
  // bytes came with the first and are still here. exists: there is a chunk for this half.
  template <int half, bool kIsSecond>
  __device__ __forceinline__ void load(const unsigned char* stage, const WarpRows& rows, bool exists) {
    if constexpr (kIsSecond || (half == 1 && T::kChunksPerStep == 1)) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const unsigned char* tile = stage + rows.tile[side] * T::kStageBytes;
      raw_[side] =
          *reinterpret_cast<const uint4*>(tile + half * T::kChunkBytes + rows.half[side] * 512 + lane * 16);
      // The last step of a 16-bit tile may have one chunk: what stands behind it is not of this tile.
      if (half == 1 && !exists) raw_[side] = {0, 0, 0, 0};
      if constexpr (F::kScaleGroups > 0) {
#pragma unroll
        for (int group = 0; group < F::kScaleGroups; ++group)
          scale_[side][group] = tile_scale<type>(tile + 1024, group, rows.half[side] * 8 + lane / 4);
      }
    }
  }

  // a[m]: operand of product m of the half.
  template <int half, bool kIsSecond>
  __device__ __forceinline__ void operands(std::uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      std::uint32_t high = 0;
      std::uint32_t low = 0;
      if constexpr (F::kScaleGroups > 0) {
        const float scale = scale_[side][F::kScaleGroups == 4 ? (kIsSecond ? 2 : 0) + half : 0];
        high = pack2(scale, scale);
        const float rest = scale - __uint_as_float(high << 16);
        low = pack2(rest, rest);
      }
      uint4 bits = raw_[side];
      if constexpr (kIsSecond) bits.x = bits.z, bits.y = bits.w;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        std::uint32_t first, second;
        if constexpr (F::kChunk == 32)
          F::pairs(bits, m, first, second);
        else if constexpr (F::kOffset != 0)
          F::exact_pairs(bits, 2 * half + m, first, second);
        else
          F::pairs(bits, 2 * half + m, first, second);
        if constexpr (type == NumberType::mxfp4) {  // a power of two
          first = multiply2(first, high);
          second = multiply2(second, high);
        } else if constexpr (F::kScaleGroups > 0) {
          first = scaled2(first, high, low);
          second = scaled2(second, high, low);
        }
        a[m][side] = first;
        a[m][2 + side] = second;
      }
    }
  }

 private:
  uint4 raw_[2];
  float scale_[2][F::kScaleGroups > 0 ? F::kScaleGroups : 1];
};

#endif  // __CUDACC__

}  // namespace moetune::cuda
