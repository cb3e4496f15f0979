#include "kernels/cuda/prompt_rows.cuh"

namespace moetune::cuda {
namespace {

constexpr int kThreads = 256;  // four blocks of columns of eight rows

// Two neighbouring columns; zeros beyond the end.
__device__ __forceinline__ float2 two_of(const float* row, int column, int in, bool is_aligned) {
  if (is_aligned && column + 2 <= in) return *reinterpret_cast<const float2*>(row + column);
  return {column < in ? row[column] : 0.0F, column + 1 < in ? row[column + 1] : 0.0F};
}

// A thread writes 16 bytes: the piece with product m and half h of a block, from lanes t = 0 .. 3.
template <bool kIsWide>
__global__ void __launch_bounds__(kThreads)
    gather(Rows x, int rows, int in, const std::int32_t* pair_of_row, const std::int32_t* row_first,
           const std::int32_t* count, int k, PromptRows to) {
  let_next_start();
  wait_for_previous();
  const int row = static_cast<int>(blockIdx.y) * 8 + static_cast<int>(threadIdx.x) / 8 % 8;
  if (pair_of_row != nullptr) rows = row_first[*count];
  if (row >= rows) return;
  const int pair = pair_of_row != nullptr ? pair_of_row[row] : row;
  if (pair < 0) return;  // padding: its results are never read
  const float* from = x.row(pair_of_row != nullptr ? pair / k : row);
  const bool is_aligned = x.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 8 == 0;
  const int piece = static_cast<int>(threadIdx.x) % 8;
  constexpr int kWidth = kIsWide ? 16 : 8;
  const int first =
      kIsWide ? piece / 2 * 4 + piece % 2 * 2 : piece / 4 * 32 + piece / 2 % 2 * 4 + piece % 2 * 2;
  for (int block = static_cast<int>(blockIdx.x) * 4 + static_cast<int>(threadIdx.x) / 64; block < to.blocks;
       block += static_cast<int>(gridDim.x) * 4) {
    float2 v[4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
      v[t] = two_of(from, block * kBlockColumns + first + kWidth * t, in, is_aligned);
    uint4 bits = {pack2(v[0].x, v[0].y), pack2(v[1].x, v[1].y), pack2(v[2].x, v[2].y), pack2(v[3].x, v[3].y)};
    const int at = (piece ^ row % 8) * 16;
    *reinterpret_cast<uint4*>(to.row(0, block, row) + at) = bits;
    if (to.parts == 1) continue;
    std::uint32_t lost[4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
      lost[t] = pack2(v[t].x - __uint_as_float(word(bits, t) << 16),
                      v[t].y - __uint_as_float(word(bits, t) & 0xFFFF0000U));
    *reinterpret_cast<uint4*>(to.row(1, block, row) + at) = {lost[0], lost[1], lost[2], lost[3]};
  }
}

}  // namespace

void gather_rows(Cuda& cuda, Rows x, int rows, int in, const PromptPlan* plan, int k, const PromptRows& to) {
  const int capacity = plan != nullptr ? to.capacity : rows;
  launch(to.is_wide ? gather<true> : gather<false>,
         {.grid = dim3(blocks_for(to.blocks, 16), blocks_for(capacity, 8)), .threads = kThreads},
         cuda.state().stream, true, x, rows, in, plan != nullptr ? plan->pair_of_row : nullptr,
         plan != nullptr ? plan->row_first : nullptr, plan != nullptr ? plan->count : nullptr, k, to);
}

}  // namespace moetune::cuda
