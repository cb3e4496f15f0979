// One block: every warp counts its own share of the pairs, sums over warps and experts say where each share
// goes, then every warp places its own. No atomics, so that the order is the tokens' whatever ran before.
#include "kernels/cuda/prompt_plan.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 32;
constexpr int kThreads = 32 * kWarps;

struct Sums {
  int entries;
  int rows;
  int columns;
};
__device__ __forceinline__ Sums operator+(const Sums& a, const Sums& b) {
  return {a.entries + b.entries, a.rows + b.rows, a.columns + b.columns};
}

// Exclusive sums over the threads of the block; total: over all.
__device__ Sums exclusive_sums(const Sums& value, Sums& total, Sums (&of_warps)[kWarps]) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  Sums sum = value;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Sums from{__shfl_up_sync(0xFFFFFFFFU, sum.entries, offset),
                    __shfl_up_sync(0xFFFFFFFFU, sum.rows, offset),
                    __shfl_up_sync(0xFFFFFFFFU, sum.columns, offset)};
    if (lane >= offset) sum = sum + from;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  Sums before{};
  total = {};
  for (int other = 0; other < kWarps; ++other) {
    if (other < warp) before = before + of_warps[other];
    total = total + of_warps[other];
  }
  __syncthreads();
  return {before.entries + sum.entries - value.entries, before.rows + sum.rows - value.rows,
          before.columns + sum.columns - value.columns};
}

// Calls body(pair, expert, lanes with the same expert) for 32 pairs at a time of this warp's share, in order;
// expert -1: none.
template <class Body>
__device__ __forceinline__ void for_each_pair(const std::int32_t* ids, std::int64_t ids_stride,
                                              const std::int32_t* slots, const PromptShape& shape,
                                              const Body& body) {
  const int pairs = shape.tokens * shape.k;
  const int each = ((pairs + kWarps - 1) / kWarps + 31) / 32 * 32;
  const int first = static_cast<int>(threadIdx.x / 32) * each;
  const int end = min(pairs, first + each);
  for (int base = first; base < end; base += 32) {
    const int pair = base + static_cast<int>(threadIdx.x % 32);
    int expert = -1;
    if (pair < end) {
      expert = ids[pair / shape.k * ids_stride + pair % shape.k];
      if (expert >= 0 && slots[expert] < 0) expert = -1;
    }
    body(pair, expert, __match_any_sync(0xFFFFFFFFU, expert));
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads)
    plan(const std::int32_t* ids, std::int64_t ids_stride, const std::int32_t* slot_of_expert,
         PromptShape shape, int most_columns, PromptPlan to) {
  extern __shared__ int shared[];  // (warps, experts) counts, then where the next pair goes; (experts) slots
  __shared__ Sums of_warps[kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  int* slots = shared + kWarps * shape.experts;
  int* mine = shared + thread / 32 * shape.experts;
  const unsigned below = (1U << thread % 32) - 1U;
  for (int i = thread; i < kWarps * shape.experts; i += kThreads) shared[i] = 0;
  let_next_start();
  wait_for_previous();
  for (int expert = thread; expert < shape.experts; expert += kThreads)
    slots[expert] = slot_of_expert[expert];
  __syncthreads();
  for_each_pair(ids, ids_stride, slots, shape, [&](int, int expert, unsigned same) {
    if (expert >= 0 && (same & below) == 0) mine[expert] += __popc(same);
  });
  __syncthreads();
  Sums sums{};
  for (int base = 0; base < shape.experts; base += kThreads) {
    const int expert = base + thread;
    int count = 0;
    if (expert < shape.experts)
      for (int warp = 0; warp < kWarps; ++warp) count += shared[warp * shape.experts + expert];
    Sums more{};
    const Sums at = sums + exclusive_sums({count > 0 ? 1 : 0, (count + 7) / 8 * 8,
                                           (count + most_columns - 1) / most_columns},
                                          more, of_warps);
    if (count > 0) {
      to.slots[at.entries] = slots[expert];
      to.row_first[at.entries] = at.rows;
      to.row_count[at.entries] = count;
      to.column_first[at.entries] = at.columns;
      for (int row = at.rows + count; row < at.rows + (count + 7) / 8 * 8; ++row) to.pair_of_row[row] = -1;
    }
    if (expert < shape.experts) {
      int row = at.rows;
      for (int warp = 0; warp < kWarps; ++warp) {
        const int own = shared[warp * shape.experts + expert];
        shared[warp * shape.experts + expert] = row;
        row += own;
      }
    }
    sums = sums + more;
  }
  if (thread == 0) {
    *to.count = sums.entries;
    to.row_first[sums.entries] = sums.rows;
    to.column_first[sums.entries] = sums.columns;
  }
  __syncthreads();
  for_each_pair(ids, ids_stride, slots, shape, [&](int pair, int expert, unsigned same) {
    if (expert < 0) return;
    to.pair_of_row[mine[expert] + __popc(same & below)] = pair;
    __syncwarp(same);
    if ((same & below) == 0) mine[expert] += __popc(same);
  });
}

}  // namespace

void plan_prompt(Cuda& cuda, const std::int32_t* ids, std::int64_t ids_stride,
                 const std::int32_t* slot_of_expert, const PromptShape& shape, int most_columns,
                 const PromptPlan& to) {
  launch(plan,
         {.grid = dim3(1),
          .threads = kThreads,
          .shared_bytes = (kWarps + 1) * shape.experts * static_cast<int>(sizeof(int))},
         cuda.state().stream, true, ids, ids_stride, slot_of_expert, shape, most_columns, to);
}

}  // namespace moetune::cuda
