// One block counts, scans and places; thousands of pairs are few for it.
#include "kernels/cuda/assignments.cuh"

namespace moetune::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// Exclusive sums over the threads of a block; total: over all.
__device__ int exclusive_sum(int value, int* total, int (&warp_sums)[kWarps]) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  int sum = value;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int from = __shfl_up_sync(0xFFFFFFFFU, sum, offset);
    if (lane >= offset) sum += from;
  }
  if (lane == 31) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  int before = 0;
  *total = 0;
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < static_cast<int>(threadIdx.x / 32)) before += warp_sums[warp];
    *total += warp_sums[warp];
  }
  __syncthreads();
  return before + sum - value;
}

__global__ void __launch_bounds__(kThreads)
    sort(const std::int32_t* ids, std::int64_t ids_stride, const std::int32_t* slot_of_expert,
         AssignmentShape shape, Assignments to) {
  extern __shared__ int counts[];  // (experts), then where the next pair of an expert goes
  __shared__ int warp_sums[kWarps];
  let_next_start();
  wait_for_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  for (int expert = thread; expert < shape.experts; expert += kThreads) counts[expert] = 0;
  __syncthreads();
  for (int pair = thread; pair < shape.tokens * shape.k; pair += kThreads) {
    const int expert = ids[pair / shape.k * ids_stride + pair % shape.k];
    if (expert >= 0 && slot_of_expert[expert] >= 0) atomicAdd(counts + expert, 1);
  }
  __syncthreads();
  int entries = 0;
  int pairs = 0;
  for (int base = 0; base < shape.experts; base += kThreads) {
    const int expert = base + thread;
    const int count = expert < shape.experts ? counts[expert] : 0;
    int more_entries = 0;
    int more_pairs = 0;
    const int entry = entries + exclusive_sum(count > 0 ? 1 : 0, &more_entries, warp_sums);
    const int first = pairs + exclusive_sum(count, &more_pairs, warp_sums);
    if (count > 0) {
      to.slots[entry] = slot_of_expert[expert];
      to.first[entry] = first;
    }
    if (expert < shape.experts) counts[expert] = first;
    entries += more_entries;
    pairs += more_pairs;
  }
  if (thread == 0) {
    *to.count = entries;
    to.first[entries] = pairs;
  }
  __syncthreads();
  // A warp takes 32 pairs at a time, in order, so that an expert's pairs stay in the order of the tokens: the
  // same sums whatever ran before.
  if (thread >= 32) return;
  const unsigned below = (1U << thread) - 1U;
  for (int base = 0; base < shape.tokens * shape.k; base += 32) {
    const int pair = base + thread;
    int expert = -1;
    if (pair < shape.tokens * shape.k) {
      expert = ids[pair / shape.k * ids_stride + pair % shape.k];
      if (expert >= 0 && slot_of_expert[expert] < 0) expert = -1;
    }
    const unsigned same = __match_any_sync(0xFFFFFFFFU, expert);
    if (expert >= 0) {
      to.pairs[counts[expert] + __popc(same & below)] = pair;
      __syncwarp(same);
      if ((same & below) == 0) counts[expert] += __popc(same);
    }
    __syncwarp();
  }
}

}  // namespace

void sort_assignments(Cuda& cuda, const std::int32_t* ids, std::int64_t ids_stride,
                      const std::int32_t* slot_of_expert, const AssignmentShape& shape,
                      const Assignments& to) {
  launch(
      sort,
      {.grid = dim3(1), .threads = kThreads, .shared_bytes = shape.experts * static_cast<int>(sizeof(int))},
      cuda.state().stream, true, ids, ids_stride, slot_of_expert, shape, to);
}

}  // namespace moetune::cuda
