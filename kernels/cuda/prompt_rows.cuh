// Activations as the products of a prompt want them: bf16 in blocks of 64 columns, (block, row, 128 bytes),
// so that any number of rows of a block is one copy into shared memory that lies there as wgmma and ldmatrix
// read it. Start at PromptRows.
//
// Within a row of 128 bytes, 16-byte piece c stands at c ^ (row % 8) (the 128-byte swizzle). Columns are in
// the order in which the lanes of a tile hold the weights (kernels/tile_layout.h), so that weights need no
// shuffling: place_of().
#pragma once

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/prompt_plan.cuh"
#include "kernels/tile_layout.h"

namespace moetune::cuda {

inline constexpr int kBlockColumns = 64;
inline constexpr int kBlockRowBytes = 128;

struct PromptRows {
  unsigned char* data;  // (parts, blocks, capacity, 128 bytes); part 1: what rounding to part 0 lost
  int capacity;         // rows, a multiple of 8
  int blocks;           // of 64 columns
  int parts;            // 1 or 2
  bool is_wide;         // order of columns of 8-bit types, see place_of()

  __host__ __device__ std::int64_t bytes() const {
    return std::int64_t{parts} * blocks * capacity * kBlockRowBytes;
  }
#ifdef __CUDACC__
  __device__ __forceinline__ unsigned char* row(int part, int block, int row) const {
    return data + ((std::int64_t{part} * blocks + block) * capacity + row) * kBlockRowBytes;
  }
#endif
};

// Rows for a matrix of this layout: whole chunks of it.
inline PromptRows rows_for(const TileLayout& layout, int capacity, int parts) {
  return {nullptr, capacity,
          static_cast<int>((layout.chunks * layout.chunk + kBlockColumns - 1) / kBlockColumns), parts,
          layout.chunk == 64};
}

// Lane t of a product's operand holds four neighbouring columns, of which the first two count as its columns
// 2 t, 2 t + 1 and the others as 2 t + 8, 2 t + 9; a lane's columns of one 16-byte load follow each other. So
// within a block, element e with e = span * b + width * t + 4 m + 2 h + i stands at 2-byte place span * b +
// 16 m + 8 h + 2 t + i; span, width = 64, 16 where is_wide, else 32, 8.
__host__ __device__ __forceinline__ int place_of(int element, bool is_wide) {
  const int t = is_wide ? element / 16 : element % 32 / 8;
  const int m = is_wide ? element % 16 / 4 : element / 32 * 2 + element % 8 / 4;
  return 16 * m + element % 4 / 2 * 8 + 2 * t + element % 2;
}

// Fills to.data. plan null: row r is x's row r, `rows` of them. Else the row of the pair's token.
void gather_rows(Cuda& cuda, Rows x, int rows, int in, const PromptPlan* plan, int k, const PromptRows& to);

}  // namespace moetune::cuda
