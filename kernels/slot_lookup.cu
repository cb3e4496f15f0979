// One block: what it decides is decided in order, expert by expert, and only the search for a slot is wide.
// Start at look_up().
#include "kernels/slot_lookup.h"

#include <climits>
#include <stdexcept>

#include "kernels/cuda/view.cuh"

namespace moetune {
namespace {

constexpr int kThreads = 1024;  // one for every expert of a layer
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAll = 0xFFFFFFFFU;

struct Work {
  const std::int32_t* ids;
  std::int64_t ids_stride;
  int tokens;
  int k;
  bool asks;
  EvictionRule rule;
  int experts;
  int layer;
  int first_slot;
  int slot_count;
  int most_hot;
  int first_source;
  std::int32_t* slot_of;
  std::int32_t* expert_in;
  std::int32_t* times_asked;
  std::int32_t* is_hot;
  std::int32_t* hot;        // of this layer
  std::int32_t* hot_count;  // of this layer
  std::int64_t* last_asked;
  std::int64_t* held_in_wave;
  std::int64_t* clock;
  SlotCounters* counters;
  std::int32_t* pending;
  std::int32_t* wave_table;
  std::int32_t* fetch_count;
  std::int32_t* fetch_sources;
  std::int32_t* fetch_slots;

  __device__ int key(int expert) const { return layer * experts + expert; }
};

// A slot that could be emptied, and how early it would be: in this order.
struct Candidate {
  std::uint64_t count;  // 0: free; ~0: cannot be emptied
  std::int64_t last_asked;
  int slot;

  __device__ bool before(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    if (last_asked != other.last_asked) return last_asked < other.last_asked;
    return slot < other.slot;
  }
};
__device__ Candidate nobody() { return {~std::uint64_t{0}, LLONG_MAX, INT_MAX}; }

__device__ __forceinline__ Candidate first_of_warp(Candidate mine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Candidate other{
        __shfl_xor_sync(kAll, mine.count, offset),
        static_cast<std::int64_t>(__shfl_xor_sync(kAll, static_cast<long long>(mine.last_asked), offset)),
        __shfl_xor_sync(kAll, mine.slot, offset)};
    if (other.before(mine)) mine = other;
  }
  return mine;
}

// The values of the threads that take part, in the order of the threads; returns how many. of_warp: (kWarps).
__device__ int compact(bool takes_part, int value, int* to, int* of_warp) {
  const auto thread = static_cast<int>(threadIdx.x);
  const unsigned those = __ballot_sync(kAll, takes_part);
  if (thread % 32 == 0) of_warp[thread / 32] = __popc(those);
  __syncthreads();
  int at = __popc(those & ((1U << thread % 32) - 1U));
  int all = 0;
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < thread / 32) at += of_warp[warp];
    all += of_warp[warp];
  }
  if (takes_part) to[at] = value;
  __syncthreads();
  return all;
}

// The distinct experts of a step in order of first appearance; returns how many. pairs: with an expert.
__device__ int list_distinct(const Work& work, int* listed, int* first_pair, int* pairs) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (work.tokens == 1) {
    const int expert = thread < work.k ? work.ids[thread] : -1;
    const int count = compact(expert >= 0, expert, listed, first_pair);
    if (thread == 0) *pairs = count;
    return count;
  }
  first_pair[thread] = INT_MAX;
  if (thread == 0) *pairs = 0;
  __syncthreads();
  int own = 0;
  for (int pair = thread; pair < work.tokens * work.k; pair += kThreads) {
    const int expert = work.ids[pair / work.k * work.ids_stride + pair % work.k];
    if (expert < 0) continue;
    ++own;
    atomicMin(first_pair + expert, pair);
  }
  own = __reduce_add_sync(kAll, own);
  if (thread % 32 == 0 && own > 0) atomicAdd(pairs, own);
  __syncthreads();
  const int mine = first_pair[thread];
  const int count = __syncthreads_count(mine != INT_MAX ? 1 : 0);
  if (mine != INT_MAX) {
    int rank = 0;
    for (int expert = 0; expert < work.experts; ++expert) rank += first_pair[expert] < mine ? 1 : 0;
    listed[rank] = thread;
  }
  __syncthreads();
  return count;
}

// By one warp: what an expert's turn does to the hot ones depends on the turns before it.
__device__ void count_and_keep_hot(const Work& work, const int* listed, int count, std::int64_t before) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < count; ++i) {
    const int asked = work.key(listed[i]);
    if (lane == 0) {
      work.last_asked[asked] = before + 1 + i;
      ++work.times_asked[asked];
    }
    __syncwarp();
    const int hot_count = *work.hot_count;
    if (work.is_hot[asked] != 0 || work.most_hot == 0) continue;
    Candidate coldest = nobody();  // its slot: the place in the list
    if (hot_count == work.most_hot)
      for (int place = lane; place < hot_count; place += 32) {
        const int there = work.hot[place];
        const Candidate one{static_cast<std::uint64_t>(work.times_asked[there]), work.last_asked[there],
                            place};
        if (one.before(coldest)) coldest = one;
      }
    coldest = first_of_warp(coldest);
    if (lane == 0) {
      int place = hot_count;
      if (hot_count < work.most_hot) {
        *work.hot_count = hot_count + 1;
      } else {
        place = coldest.count < static_cast<std::uint64_t>(work.times_asked[asked]) ? coldest.slot : -1;
        if (place >= 0) work.is_hot[work.hot[place]] = 0;
      }
      if (place >= 0) {
        work.hot[place] = asked;
        work.is_hot[asked] = 1;
      }
    }
    __syncwarp();
  }
}

// Every thread returns with the number of listed experts.
__device__ int ask(const Work& work, int* listed, int* first_pair) {
  __shared__ int pairs;
  const auto thread = static_cast<int>(threadIdx.x);
  const int count = list_distinct(work, listed, first_pair, &pairs);
  const std::int64_t before = work.clock[0];
  __syncthreads();
  if (!work.rule.keeps_hot) {
    if (thread < count) {
      const int asked = work.key(listed[thread]);
      work.last_asked[asked] = before + 1 + thread;
      ++work.times_asked[asked];
    }
  } else if (thread < 32) {
    count_and_keep_hot(work, listed, count, before);
  }
  const bool is_hit = thread < count && work.slot_of[work.key(listed[thread])] >= 0;
  const int hits = __syncthreads_count(is_hit ? 1 : 0);
  if (thread == 0) {
    work.clock[0] = before + count;
    work.counters->lookups += pairs;
    work.counters->hits += hits;
    work.counters->misses += count - hits;
  }
  return count;
}

// The slot that the next missing expert gets, for every thread; its count says what kind.
__device__ Candidate find_slot(const Work& work, std::int64_t wave, Candidate* firsts) {
  const auto thread = static_cast<int>(threadIdx.x);
  Candidate first = nobody();
  for (int slot = work.first_slot + thread; slot < work.first_slot + work.slot_count; slot += kThreads) {
    const int there = work.expert_in[slot];
    Candidate one{0, 0, slot};
    if (there >= 0) {
      if (work.held_in_wave[slot] == wave || work.is_hot[there] != 0) continue;
      one.count = 1 + static_cast<std::uint64_t>(work.rule.by_count ? work.times_asked[there] : 0);
      one.last_asked = work.last_asked[there];
    }
    if (one.before(first)) first = one;
  }
  first = first_of_warp(first);
  if (thread % 32 == 0) firsts[thread / 32] = first;
  __syncthreads();
  first = first_of_warp(firsts[thread % 32]);  // there are as many warps as lanes
  __syncthreads();
  return first;
}
static_assert(kWarps == 32);

// One thread; the others see it behind the next __syncthreads().
__device__ void place(const Work& work, int expert, const Candidate& in, std::int64_t wave, int fetched) {
  if (in.count != 0) work.slot_of[work.expert_in[in.slot]] = -1;
  work.expert_in[in.slot] = work.key(expert);
  work.slot_of[work.key(expert)] = in.slot;
  work.held_in_wave[in.slot] = wave;
  work.wave_table[expert] = in.slot;
  work.fetch_sources[fetched] = work.first_source + expert;
  work.fetch_slots[fetched] = in.slot;
}

// Those of `listed` that are not resident, in order, into `missing`; the others are held and get their entry.
__device__ int hold_resident(const Work& work, const int* listed, int count, std::int64_t wave, int* missing,
                             int* missing_of_warp) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int expert = thread < count ? listed[thread] : -1;
  const int slot = expert >= 0 ? work.slot_of[work.key(expert)] : -1;
  if (slot >= 0) {
    work.held_in_wave[slot] = wave;
    work.wave_table[expert] = slot;
  }
  return compact(expert >= 0 && slot < 0, expert, missing, missing_of_warp);
}

__global__ void __launch_bounds__(kThreads, 1) look_up(const __grid_constant__ Work work) {
  __shared__ int listed[kThreads];
  __shared__ int missing[kThreads];  // before that: the first pair of each expert
  __shared__ int missing_of_warp[kWarps];
  __shared__ Candidate firsts[kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  cuda::let_next_start();
  cuda::wait_for_previous();
  if (thread < work.experts) work.wave_table[thread] = -1;
  const std::int64_t wave = work.clock[1] + 1;
  int count = 0;
  if (work.asks) {
    count = ask(work, listed, missing);
  } else {
    count = work.pending[0];
    if (thread < count) listed[thread] = work.pending[1 + thread];
  }
  __syncthreads();  // the table is empty, and everybody knows the wave's number
  if (thread == 0) work.clock[1] = wave;
  const int all = hold_resident(work, listed, count, wave, missing, missing_of_warp);

  int placed = 0;
  int evicted = 0;
  for (; placed < all; ++placed) {
    const Candidate slot = find_slot(work, wave, firsts);
    if (slot.count == ~std::uint64_t{0}) break;  // all in use: for the others too
    evicted += slot.count != 0 ? 1 : 0;
    if (thread == 0) place(work, missing[placed], slot, wave, placed);
    __syncthreads();
  }
  if (placed + thread < all) work.pending[1 + thread] = missing[placed + thread];
  if (thread != 0) return;
  work.pending[0] = all - placed;
  *work.fetch_count = placed;
  work.counters->evictions += evicted;
  work.counters->fetched += placed;
}

}  // namespace

void run(Cuda& cuda, const LookUpSlots& op) {
  const SlotState& state = op.state;
  const auto experts = static_cast<int>(state.slot_of.dim(1));
  if (experts > kThreads)
    throw std::invalid_argument("an expert cache on a GPU for " + std::to_string(experts) +
                                " experts in a layer (accepted: up to 1024)");
  const Work work{.ids = op.asks ? op.ids.i32() : nullptr,
                  .ids_stride = op.asks ? op.ids.stride(0) : 0,
                  .tokens = op.asks ? static_cast<int>(op.ids.dim(0)) : 0,
                  .k = op.asks ? static_cast<int>(op.ids.dim(1)) : 0,
                  .asks = op.asks,
                  .rule = op.rule,
                  .experts = experts,
                  .layer = op.layer,
                  .first_slot = op.first_slot,
                  .slot_count = op.slot_count,
                  .most_hot = op.most_hot,
                  .first_source = op.first_source,
                  .slot_of = state.slot_of.i32(),
                  .expert_in = state.expert_in.i32(),
                  .times_asked = state.times_asked.i32(),
                  .is_hot = state.is_hot.i32(),
                  .hot = state.hot.i32() + std::int64_t{op.layer} * experts,
                  .hot_count = state.hot_count.i32() + op.layer,
                  .last_asked = state.last_asked,
                  .held_in_wave = state.held_in_wave,
                  .clock = state.clock,
                  .counters = state.counters,
                  .pending = op.pending.i32(),
                  .wave_table = op.wave_table.i32(),
                  .fetch_count = op.fetch.count.i32(),
                  .fetch_sources = op.fetch.sources.i32(),
                  .fetch_slots = op.fetch.slots.i32()};
  cuda::launch(look_up, {.grid = dim3(1), .threads = kThreads}, cuda.state().stream, true, work);
}

}  // namespace moetune
