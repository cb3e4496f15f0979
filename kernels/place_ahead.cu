// By the rules of the lookup (cuda/slot_rules.cuh), with another list of experts and under the number of the
// running wave.
#include "kernels/place_ahead.h"

#include "kernels/cuda/slot_rules.cuh"

namespace moetune {
namespace {

using cuda::kSlotThreads;

struct Work {
  cuda::SlotTables tables;
  const std::int32_t* ids;  // null: what was asked for last
  std::int64_t ids_stride;
  int tokens;
  int k;
  int most;
  bool is_between_steps;
};

// keys: of every expert its place among the guesses, or INT_MAX.
__device__ void order_guesses(const Work& work, int* keys) {
  const auto thread = static_cast<int>(threadIdx.x);
  const cuda::SlotTables& tables = work.tables;
  keys[thread] = INT_MAX;
  if (work.ids == nullptr && thread < tables.experts)
    if (const std::int64_t since = tables.last_asked[tables.key(thread)] - *tables.step_began; since > 0)
      keys[thread] = static_cast<int>(since);
  __syncthreads();
  if (work.ids == nullptr) return;
  for (int place = thread; place < work.tokens * work.k; place += kSlotThreads) {
    const int expert = work.ids[place % work.tokens * work.ids_stride + place / work.tokens];
    if (expert >= 0) atomicMin(keys + expert, place);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kSlotThreads, 1) place_ahead(const __grid_constant__ Work work) {
  __shared__ int listed[kSlotThreads];
  __shared__ int missing[kSlotThreads];  // before that: places among the guesses
  __shared__ int of_warp[cuda::kSlotWarps];
  __shared__ cuda::Candidate firsts[cuda::kSlotWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  const cuda::SlotTables& tables = work.tables;
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t wave = tables.clock[1] + (work.is_between_steps ? 1 : 0);
  order_guesses(work, missing);
  const int count = min(cuda::list_in_order(missing, tables.experts, listed), work.most);
  const int expert = thread < count ? listed[thread] : -1;
  const int slot = expert >= 0 ? tables.slot_of[tables.key(expert)] : -1;
  if (slot >= 0) tables.held_in_wave[slot] = wave;
  const int all = cuda::compact(expert >= 0 && slot < 0, expert, missing, of_warp);
  int placed = 0;
  int evicted = 0;
  for (; placed < all; ++placed) {
    const cuda::Candidate to = cuda::find_slot(tables, wave, firsts);
    if (!to.exists()) break;  // everything else is in use
    evicted += to.count != 0 ? 1 : 0;
    if (thread == 0) cuda::put_into(tables, missing[placed], to, wave, placed);
    __syncthreads();
  }
  if (thread < placed) tables.ahead[2 + thread] = missing[thread];
  if (thread != 0) return;
  tables.counters->ahead_in_vain +=
      tables.ahead[0];  // for a layer that did not come, as after a step that failed
  tables.counters->ahead += placed;
  tables.counters->evictions += evicted;
  tables.clock[1] = wave;
  tables.ahead[0] = placed;
  tables.ahead[1] = tables.layer;
  *tables.fetch_count = placed;
}

}  // namespace

void run(Cuda& cuda, const PlaceAhead& op) {
  const bool has_ids = !op.ids.empty();
  const Work work{.tables = cuda::slot_tables_of(op.of, op.fetch),
                  .ids = has_ids ? op.ids.i32() : nullptr,
                  .ids_stride = has_ids ? op.ids.stride(0) : 0,
                  .tokens = has_ids ? static_cast<int>(op.ids.dim(0)) : 0,
                  .k = has_ids ? static_cast<int>(op.ids.dim(1)) : 0,
                  .most = op.most,
                  .is_between_steps = op.is_between_steps};
  cuda::launch(place_ahead, {.grid = dim3(1), .threads = kSlotThreads}, cuda.state().stream, true, work);
}

}  // namespace moetune
