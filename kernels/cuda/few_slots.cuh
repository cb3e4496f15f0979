// Where the weights of a token's choice lie, found on the device. Start at ask_slot().
#pragma once

#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

__device__ __forceinline__ int load_now(const std::int32_t* from) {
  int v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

// Where the slot of a choice starts, asked for and found out later: with few experts the whole table is asked
// for at once, so that nothing waits for the expert's id before it asks for its slot.
struct SlotQuestion {
  static constexpr int kMostExperts = 128;
  int expert;
  int4 slots;  // of the experts lane, lane + 32, ...
};
__device__ __forceinline__ SlotQuestion ask_slot(const FfnEntries& entries, int choice) {
  SlotQuestion asked{-1, {-1, -1, -1, -1}};
  if (entries.kind == FfnEntries::Kind::everyone) return asked;
  asked.expert = load_now(entries.ids + choice);
  if (entries.experts > SlotQuestion::kMostExperts) return asked;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int32_t* table = entries.slot_of_expert + lane;
  if (lane < entries.experts) asked.slots.x = load_now(table);
  if (lane + 32 < entries.experts) asked.slots.y = load_now(table + 32);
  if (lane + 64 < entries.experts) asked.slots.z = load_now(table + 64);
  if (lane + 96 < entries.experts) asked.slots.w = load_now(table + 96);
  return asked;
}
// By whole warps. null: dropped, or not in this wave.
__device__ __forceinline__ const unsigned char* slot_of(const SlotQuestion& asked, const FfnWork& work,
                                                        const unsigned char* slots) {
  if (work.entries.kind == FfnEntries::Kind::everyone) return slots;
  if (asked.expert < 0) return nullptr;
  int slot = 0;
  if (work.entries.experts > SlotQuestion::kMostExperts) {
    slot = work.entries.slot_of_expert[asked.expert];
  } else {
    const int part = asked.expert / 32;
    slot = part == 0 ? asked.slots.x : part == 1 ? asked.slots.y : part == 2 ? asked.slots.z : asked.slots.w;
    slot = __shfl_sync(0xFFFFFFFFU, slot, asked.expert % 32);
  }
  return slot < 0 ? nullptr : slots + slot * work.slot_bytes;
}

}  // namespace moetune::cuda
