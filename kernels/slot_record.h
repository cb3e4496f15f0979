// What an expert cache remembers between steps, as plain arrays on the host: what SlotMemory takes over where
// a device goes on with slots that the host has filled.
#pragma once

#include <cstdint>
#include <vector>

namespace moetune {

struct SlotRecord {
  std::vector<std::int32_t> slot_of;           // (layers, experts): its slot, or -1
  std::vector<std::int32_t> expert_in;         // (slots): layer * experts + expert, -1: free
  std::vector<std::int32_t> times_asked;       // (layers, experts)
  std::vector<std::int64_t> last_asked;        // (layers, experts): value of the clock then, 0: never
  std::vector<std::vector<std::int32_t>> hot;  // (layers): layer * experts + expert of its hot ones
  std::int64_t clock = 0;                      // experts asked for so far
};

}  // namespace moetune
