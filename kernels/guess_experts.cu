// A block per token: counts are summed by a thread per expert, and the best of them are taken one after the
// other.
#include "kernels/guess_experts.h"

#include <stdexcept>
#include <string>

#include "kernels/cuda/view.cuh"

namespace moetune {
namespace {

constexpr int kThreads = 1024;  // one for every expert
constexpr int kWarps = kThreads / 32;
constexpr unsigned kFullWarp = 0xFFFFFFFFU;

struct Ids {
  std::int32_t* first;
  std::int64_t stride;

  __device__ std::int32_t* of(int token) const { return first + token * stride; }
};

Ids ids_of(const Tensor& ids) { return ids.empty() ? Ids{nullptr, 0} : Ids{ids.i32(), ids.stride(0)}; }

struct FollowWork {
  Ids ids;
  Ids before;
  Ids guesses;
  std::int32_t* counts;
  const std::int32_t* next_counts;
  int experts;
  int k;
  bool learns;
};

__device__ unsigned long long largest_of_block(unsigned long long mine, unsigned long long* of_warp) {
  for (int offset = 16; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(kFullWarp, mine, offset));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = of_warp[threadIdx.x % 32];  // there are as many warps as lanes
  for (int offset = 16; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(kFullWarp, mine, offset));
  __syncthreads();
  return mine;
}
static_assert(kWarps == 32);

__global__ void __launch_bounds__(kThreads, 1) follow(const __grid_constant__ FollowWork work) {
  __shared__ unsigned long long of_warp[kWarps];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int32_t* chosen = work.ids.of(static_cast<int>(blockIdx.x));
  std::int32_t* before = work.before.of(static_cast<int>(blockIdx.x));
  for (int pair = thread; work.learns && pair < work.k * work.k; pair += kThreads) {
    const std::int32_t from = before[pair / work.k];
    const std::int32_t to = chosen[pair % work.k];
    if (from >= 0 && to >= 0) atomicAdd(work.counts + std::int64_t{from} * work.experts + to, 1);
  }
  __syncthreads();
  for (int choice = thread; choice < work.k; choice += kThreads) before[choice] = chosen[choice];
  if (work.next_counts == nullptr) return;

  // The sum in front, so that the largest wins; then the lower number: what was never seen is 0.
  unsigned long long mine = 0;
  if (thread < work.experts) {
    for (int choice = 0; choice < work.k; ++choice)
      if (const std::int32_t from = chosen[choice]; from >= 0)
        mine += static_cast<unsigned>(work.next_counts[std::int64_t{from} * work.experts + thread]);
    if (mine > 0) mine = mine << 10 | static_cast<unsigned>(kThreads - 1 - thread);
  }
  std::int32_t* guesses = work.guesses.of(static_cast<int>(blockIdx.x));
  for (int choice = 0; choice < work.k; ++choice) {
    const unsigned long long best = largest_of_block(mine, of_warp);
    if (best == mine) mine = 0;
    if (thread == 0)
      guesses[choice] = best == 0 ? -1 : kThreads - 1 - static_cast<int>(best & (kThreads - 1));
  }
}
static_assert(kThreads == 1 << 10);

struct RecallWork {
  const std::int32_t* token_ids;
  Ids ids;
  Ids guesses;
  std::int32_t* table;
  const std::int32_t* next_table;
  std::int64_t width;  // of a row of either
  int tokens;
  int k;
};

constexpr int kRecallThreads = 128;

__global__ void __launch_bounds__(kRecallThreads) recall(const __grid_constant__ RecallWork work) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto token = static_cast<int>(blockIdx.x);
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int32_t id = work.token_ids[token];
  if (work.ids.first != nullptr) {
    int later = 0;  // the same id: that token is the one to be remembered
    for (int other = token + 1 + thread; other < work.tokens; other += kRecallThreads)
      later |= work.token_ids[other] == id ? 1 : 0;
    if (__syncthreads_or(later) == 0)
      for (int choice = thread; choice < work.k; choice += kRecallThreads)
        work.table[id * work.width + choice] = work.ids.of(token)[choice];
  }
  if (work.next_table == nullptr) return;
  for (int choice = thread; choice < work.k; choice += kRecallThreads)
    work.guesses.of(token)[choice] = work.next_table[id * work.width + choice];
}

}  // namespace

void run(Cuda& cuda, const FollowExperts& op) {
  const auto experts = static_cast<int>(op.counts.dim(1));
  if (experts > kThreads)
    throw std::invalid_argument("guesses on a GPU for " + std::to_string(experts) +
                                " experts in a layer (accepted: up to 1024)");
  const FollowWork work{.ids = ids_of(op.ids),
                        .before = ids_of(op.before),
                        .guesses = ids_of(op.guesses),
                        .counts = op.counts.i32(),
                        .next_counts = op.next_counts.empty() ? nullptr : op.next_counts.i32(),
                        .experts = experts,
                        .k = static_cast<int>(op.ids.dim(1)),
                        .learns = op.learns};
  cuda::launch(follow, {.grid = dim3(static_cast<unsigned>(op.ids.dim(0))), .threads = kThreads},
               cuda.state().stream, true, work);
}

void run(Cuda& cuda, const RecallExperts& op) {
  const bool learns = !op.ids.empty();
  const bool guesses = !op.next_table.empty();
  const RecallWork work{.token_ids = op.token_ids.i32(),
                        .ids = ids_of(op.ids),
                        .guesses = ids_of(op.guesses),
                        .table = learns ? op.table.i32() : nullptr,
                        .next_table = guesses ? op.next_table.i32() : nullptr,
                        .width = learns ? op.table.stride(0) : op.next_table.stride(0),
                        .tokens = static_cast<int>(op.token_ids.dim(0)),
                        .k = static_cast<int>(learns ? op.ids.dim(1) : op.guesses.dim(1))};
  cuda::launch(recall, {.grid = dim3(static_cast<unsigned>(op.token_ids.dim(0))), .threads = kRecallThreads},
               cuda.state().stream, true, work);
}

}  // namespace moetune
