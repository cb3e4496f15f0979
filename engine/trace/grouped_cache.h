// A cache that moves whole groups of experts, clustered by how often one token chooses them together:
// replayed only, the engine has no such cache. A group comes in for one of its experts, so what it brings
// besides may be in vain. Start at replay_groups().
#pragma once

#include <cstdint>
#include <vector>

#include "engine/trace/routing_trace.h"

namespace moetune {

// Per layer, the group of every expert: experts are taken in order of use, each new group fills up with those
// that were chosen most often beside what it has. learn_from: decode steps and prompts alike.
std::vector<std::vector<std::int32_t>> group_experts(const RoutingTrace& learn_from, int group_size);

struct GroupedCounts {
  std::int64_t hits = 0;           // distinct experts of decode steps found resident
  std::int64_t misses = 0;         // and not
  std::int64_t loads = 0;          // experts brought in by decode steps, group by group
  std::int64_t loads_in_vain = 0;  // of them: not asked for while they were there
  double hit_rate() const {
    return hits + misses == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
};

// slots: experts over all layers; every layer has its share of whole groups, one at least. A step that needs
// more goes through them in turn.
GroupedCounts replay_groups(const RoutingTrace& trace, const std::vector<std::vector<std::int32_t>>& groups,
                            int group_size, int slots);

}  // namespace moetune
