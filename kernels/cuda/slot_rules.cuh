// Who gets which slot, by one block: decided in order, expert by expert, only the search for a slot is wide.
// What LookUpSlots and PlaceAhead have in common.
#pragma once

#include <climits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/view.cuh"
#include "kernels/slot_lookup.h"

namespace moetune::cuda {

inline constexpr int kSlotThreads = 1024;  // one for every expert of a layer
inline constexpr int kSlotWarps = kSlotThreads / 32;
inline constexpr unsigned kFullWarp = 0xFFFFFFFFU;

// LayerSlots and where a fetch is listed, as a kernel needs them.
struct SlotTables {
  EvictionRule rule;
  int experts;
  int layer;
  int first_slot;
  int slot_count;
  int first_source;
  std::int32_t* slot_of;
  std::int32_t* expert_in;
  std::int32_t* times_asked;
  std::int32_t* is_hot;
  std::int64_t* last_asked;
  std::int64_t* step_began;  // of this layer
  std::int64_t* held_in_wave;
  std::int64_t* clock;
  std::int32_t* ahead;
  SlotCounters* counters;
  std::int32_t* fetch_count;
  std::int32_t* fetch_sources;
  std::int32_t* fetch_slots;

  __device__ int key(int expert) const { return layer * experts + expert; }
};

// Throws std::invalid_argument beyond the capacities.
inline SlotTables slot_tables_of(const LayerSlots& of, const FetchList& fetch) {
  const SlotState& state = of.state;
  const auto experts = static_cast<int>(state.slot_of.dim(1));
  if (experts > kSlotThreads)
    throw std::invalid_argument("an expert cache on a GPU for " + std::to_string(experts) +
                                " experts in a layer (accepted: up to 1024)");
  return {.rule = of.rule,
          .experts = experts,
          .layer = of.layer,
          .first_slot = of.first_slot,
          .slot_count = of.slot_count,
          .first_source = of.first_source,
          .slot_of = state.slot_of.i32(),
          .expert_in = state.expert_in.i32(),
          .times_asked = state.times_asked.i32(),
          .is_hot = state.is_hot.i32(),
          .last_asked = state.last_asked,
          .step_began = state.step_began + of.layer,
          .held_in_wave = state.held_in_wave,
          .clock = state.clock,
          .ahead = state.ahead.i32(),
          .counters = state.counters,
          .fetch_count = fetch.count.i32(),
          .fetch_sources = fetch.sources.i32(),
          .fetch_slots = fetch.slots.i32()};
}

// A slot that could be emptied, and how early it would be: in this order.
struct Candidate {
  std::uint64_t count;  // 0: free; ~0: cannot be emptied
  std::int64_t last_asked;
  int slot;

  __device__ bool exists() const { return count != ~std::uint64_t{0}; }
  __device__ bool before(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    if (last_asked != other.last_asked) return last_asked < other.last_asked;
    return slot < other.slot;
  }
};
__device__ inline Candidate nobody() { return {~std::uint64_t{0}, LLONG_MAX, INT_MAX}; }

__device__ __forceinline__ Candidate first_of_warp(Candidate mine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Candidate other{__shfl_xor_sync(kFullWarp, mine.count, offset),
                          static_cast<std::int64_t>(
                              __shfl_xor_sync(kFullWarp, static_cast<long long>(mine.last_asked), offset)),
                          __shfl_xor_sync(kFullWarp, mine.slot, offset)};
    if (other.before(mine)) mine = other;
  }
  return mine;
}

// The values of the threads that take part, in the order of the threads; returns how many. of_warp:
// (kSlotWarps).
__device__ inline int compact(bool takes_part, int value, int* to, int* of_warp) {
  const auto thread = static_cast<int>(threadIdx.x);
  const unsigned those = __ballot_sync(kFullWarp, takes_part);
  if (thread % 32 == 0) of_warp[thread / 32] = __popc(those);
  __syncthreads();
  int at = __popc(those & ((1U << thread % 32) - 1U));
  int all = 0;
  for (int warp = 0; warp < kSlotWarps; ++warp) {
    if (warp < thread / 32) at += of_warp[warp];
    all += of_warp[warp];
  }
  if (takes_part) to[at] = value;
  __syncthreads();
  return all;
}

// Experts in the order of their keys, INT_MAX: not listed; a thread has one expert. Returns how many. Behind
// a __syncthreads().
__device__ inline int list_in_order(const int* keys, int experts, int* listed) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int mine = keys[thread];
  const int count = __syncthreads_count(mine != INT_MAX ? 1 : 0);
  if (mine != INT_MAX) {
    int rank = 0;
    for (int expert = 0; expert < experts; ++expert) rank += keys[expert] < mine ? 1 : 0;
    listed[rank] = thread;
  }
  __syncthreads();
  return count;
}

// The slot that the next missing expert gets, for every thread; its count says what kind. firsts:
// (kSlotWarps).
__device__ inline Candidate find_slot(const SlotTables& tables, std::int64_t wave, Candidate* firsts) {
  const auto thread = static_cast<int>(threadIdx.x);
  Candidate first = nobody();
  for (int slot = tables.first_slot + thread; slot < tables.first_slot + tables.slot_count;
       slot += kSlotThreads) {
    const int there = tables.expert_in[slot];
    Candidate one{0, 0, slot};
    if (there >= 0) {
      if (tables.held_in_wave[slot] == wave || tables.is_hot[there] != 0) continue;
      one.count = 1 + static_cast<std::uint64_t>(tables.rule.by_count ? tables.times_asked[there] : 0);
      one.last_asked = tables.last_asked[there];
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
static_assert(kSlotWarps == 32);

// One thread; the others see it behind the next __syncthreads().
__device__ inline void put_into(const SlotTables& tables, int expert, const Candidate& in, std::int64_t wave,
                                int fetched) {
  if (in.count != 0) tables.slot_of[tables.expert_in[in.slot]] = -1;
  tables.expert_in[in.slot] = tables.key(expert);
  tables.slot_of[tables.key(expert)] = in.slot;
  tables.held_in_wave[in.slot] = wave;
  tables.fetch_sources[fetched] = tables.first_source + expert;
  tables.fetch_slots[fetched] = in.slot;
}

}  // namespace moetune::cuda
