#include "engine/shard.h"

#include <algorithm>

namespace moetune {

Slice Shard::part_of(std::int64_t whole) const {
  const std::int64_t length = whole / ranks;
  const std::int64_t longer = whole % ranks;
  return {rank * length + std::min<std::int64_t>(rank, longer), length + (rank < longer ? 1 : 0)};
}

// With fewer key/value heads than ranks, neighbouring ranks hold the same one: their query heads belong to
// it.
Slice Shard::kv_heads(const ModelSpec& spec) const {
  if (spec.kv_heads >= ranks) return part_of(spec.kv_heads);
  return {rank * spec.kv_heads / ranks, 1};
}

}  // namespace moetune
