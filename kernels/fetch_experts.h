// FetchExperts: brings the blocks of a list from a store in host memory into the slots of a cache. On a GPU
// the device reads the store itself, over the link, so that a step which misses is a graph like any other.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/slot_lookup.h"
#include "kernels/tensor.h"

namespace moetune {

struct FetchExperts {
  const std::byte* store = nullptr;  // block b starts at store + b * block_bytes; pinned where a GPU reads it
  std::byte* slots = nullptr;        // slot s starts at slots + s * block_bytes
  std::int64_t block_bytes = 0;      // a multiple of 16
  FetchList list;
  // fetch_ns grows by the time that the blocks took; null: nobody waits for them, they come beside other ops
  // (side_branch.h).
  SlotCounters* counters = nullptr;
};
void run(Cpu& cpu, const FetchExperts& op);
void run(Cuda& cuda, const FetchExperts& op);

}  // namespace moetune
