// One block: what it decides is decided in order, expert by expert, and only the search for a slot is wide.
// Start at look_up().
#include "kernels/slot_lookup.h"

#include "kernels/cuda/slot_rules.cuh"

namespace moetune {
namespace {

using cuda::Candidate;
using cuda::kFullWarp;
using cuda::kSlotThreads;
using cuda::SlotTables;

struct Work {
  SlotTables tables;
  const std::int32_t* ids;
  std::int64_t ids_stride;
  int tokens;
  int k;
  bool asks;
  int most_hot;
  std::int32_t* hot;        // of this layer
  std::int32_t* hot_count;  // of this layer
  std::int32_t* pending;
  std::int32_t* wave_table;
};

// The distinct experts of a step in order of first appearance; returns how many. pairs: with an expert.
__device__ int list_distinct(const Work& work, int* listed, int* first_pair, int* pairs) {
  const SlotTables& tables = work.tables;
  const auto thread = static_cast<int>(threadIdx.x);
  if (work.tokens == 1) {
    const int expert = thread < work.k ? work.ids[thread] : -1;
    const int count = cuda::compact(expert >= 0, expert, listed, first_pair);
    if (thread == 0) *pairs = count;
    return count;
  }
  first_pair[thread] = INT_MAX;
  if (thread == 0) *pairs = 0;
  __syncthreads();
  int own = 0;
  for (int pair = thread; pair < work.tokens * work.k; pair += kSlotThreads) {
    const int expert = work.ids[pair / work.k * work.ids_stride + pair % work.k];
    if (expert < 0) continue;
    ++own;
    atomicMin(first_pair + expert, pair);
  }
  own = __reduce_add_sync(kFullWarp, own);
  if (thread % 32 == 0 && own > 0) atomicAdd(pairs, own);
  __syncthreads();
  return cuda::list_in_order(first_pair, tables.experts, listed);
}

// By one warp: what an expert's turn does to the hot ones depends on the turns before it.
__device__ void count_and_keep_hot(const Work& work, const int* listed, int count, std::int64_t before) {
  const SlotTables& tables = work.tables;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < count; ++i) {
    const int asked = tables.key(listed[i]);
    if (lane == 0) {
      tables.last_asked[asked] = before + 1 + i;
      ++tables.times_asked[asked];
    }
    __syncwarp();
    const int hot_count = *work.hot_count;
    if (tables.is_hot[asked] != 0 || work.most_hot == 0) continue;
    Candidate coldest = cuda::nobody();  // its slot: the place in the list
    if (hot_count == work.most_hot)
      for (int place = lane; place < hot_count; place += 32) {
        const int there = work.hot[place];
        const Candidate one{static_cast<std::uint64_t>(tables.times_asked[there]), tables.last_asked[there],
                            place};
        if (one.before(coldest)) coldest = one;
      }
    coldest = cuda::first_of_warp(coldest);
    if (lane == 0) {
      int place = hot_count;
      if (hot_count < work.most_hot) {
        *work.hot_count = hot_count + 1;
      } else {
        place = coldest.count < static_cast<std::uint64_t>(tables.times_asked[asked]) ? coldest.slot : -1;
        if (place >= 0) tables.is_hot[work.hot[place]] = 0;
      }
      if (place >= 0) {
        work.hot[place] = asked;
        tables.is_hot[asked] = 1;
      }
    }
    __syncwarp();
  }
}

// Every thread returns with the number of listed experts.
__device__ int ask(const Work& work, int* listed, int* first_pair) {
  const SlotTables& tables = work.tables;
  __shared__ int pairs;
  const auto thread = static_cast<int>(threadIdx.x);
  const int count = list_distinct(work, listed, first_pair, &pairs);
  const std::int64_t before = tables.clock[0];
  __syncthreads();
  if (!tables.rule.keeps_hot) {
    if (thread < count) {
      const int asked = tables.key(listed[thread]);
      tables.last_asked[asked] = before + 1 + thread;
      ++tables.times_asked[asked];
    }
  } else if (thread < 32) {
    count_and_keep_hot(work, listed, count, before);
  }
  __syncthreads();  // who was asked for is written down
  const bool is_in_vain =
      thread < tables.ahead[0] &&
      (tables.ahead[1] != tables.layer || tables.last_asked[tables.key(tables.ahead[2 + thread])] <= before);
  const int in_vain = __syncthreads_count(is_in_vain ? 1 : 0);
  const bool is_hit = thread < count && tables.slot_of[tables.key(listed[thread])] >= 0;
  const int hits = __syncthreads_count(is_hit ? 1 : 0);
  if (thread == 0) {
    tables.clock[0] = before + count;
    *tables.step_began = before;
    tables.ahead[0] = 0;
    tables.counters->ahead_in_vain += in_vain;
    tables.counters->lookups += pairs;
    tables.counters->hits += hits;
    tables.counters->misses += count - hits;
    tables.counters->missing_layers += count > hits ? 1 : 0;
  }
  return count;
}

// Those of `listed` that are not resident, in order, into `missing`; the others are held and get their entry.
__device__ int hold_resident(const Work& work, const int* listed, int count, std::int64_t wave, int* missing,
                             int* missing_of_warp) {
  const SlotTables& tables = work.tables;
  const auto thread = static_cast<int>(threadIdx.x);
  const int expert = thread < count ? listed[thread] : -1;
  const int slot = expert >= 0 ? tables.slot_of[tables.key(expert)] : -1;
  if (slot >= 0) {
    tables.held_in_wave[slot] = wave;
    work.wave_table[expert] = slot;
  }
  return cuda::compact(expert >= 0 && slot < 0, expert, missing, missing_of_warp);
}

__global__ void __launch_bounds__(kSlotThreads, 1) look_up(const __grid_constant__ Work work) {
  const SlotTables& tables = work.tables;
  __shared__ int listed[kSlotThreads];
  __shared__ int missing[kSlotThreads];  // before that: the first pair of each expert
  __shared__ int missing_of_warp[cuda::kSlotWarps];
  __shared__ Candidate firsts[cuda::kSlotWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  cuda::let_next_start();
  cuda::wait_for_previous();
  if (thread < tables.experts) work.wave_table[thread] = -1;
  const std::int64_t wave = tables.clock[1] + 1;
  int count = 0;
  if (work.asks) {
    count = ask(work, listed, missing);
  } else {
    count = work.pending[0];
    if (thread < count) listed[thread] = work.pending[1 + thread];
  }
  __syncthreads();  // the table is empty, and everybody knows the wave's number
  if (thread == 0) tables.clock[1] = wave;
  const int all = hold_resident(work, listed, count, wave, missing, missing_of_warp);

  int placed = 0;
  int evicted = 0;
  for (; placed < all; ++placed) {
    const Candidate to = cuda::find_slot(tables, wave, firsts);
    if (!to.exists()) break;  // all in use: for the others too
    evicted += to.count != 0 ? 1 : 0;
    if (thread == 0) {
      cuda::put_into(tables, missing[placed], to, wave, placed);
      work.wave_table[missing[placed]] = to.slot;
    }
    __syncthreads();
  }
  if (placed + thread < all) work.pending[1 + thread] = missing[placed + thread];
  if (thread != 0) return;
  work.pending[0] = all - placed;
  *tables.fetch_count = placed;
  tables.counters->evictions += evicted;
  tables.counters->fetched += placed;
}

}  // namespace

void run(Cuda& cuda, const LookUpSlots& op) {
  const SlotState& state = op.of.state;
  const SlotTables tables = cuda::slot_tables_of(op.of, op.fetch);
  const Work work{.tables = tables,
                  .ids = op.asks ? op.ids.i32() : nullptr,
                  .ids_stride = op.asks ? op.ids.stride(0) : 0,
                  .tokens = op.asks ? static_cast<int>(op.ids.dim(0)) : 0,
                  .k = op.asks ? static_cast<int>(op.ids.dim(1)) : 0,
                  .asks = op.asks,
                  .most_hot = op.most_hot,
                  .hot = state.hot.i32() + std::int64_t{op.of.layer} * tables.experts,
                  .hot_count = state.hot_count.i32() + op.of.layer,
                  .pending = op.pending.i32(),
                  .wave_table = op.wave_table.i32()};
  cuda::launch(look_up, {.grid = dim3(1), .threads = kSlotThreads}, cuda.state().stream, true, work);
}

}  // namespace moetune
