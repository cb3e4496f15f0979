#include "kernels/slot_rules.h"

#include <tuple>

namespace moetune {

// The first free one, else the first of those that leave before all others; -1: all are in use.
std::int32_t SlotRules::find_slot(std::int64_t wave) const {
  using Rank = std::tuple<std::int64_t, std::int64_t>;  // leaves before those of a higher rank
  const SlotState& state = of_.state;
  std::int32_t found = -1;
  Rank best;
  for (int slot = of_.first_slot; slot < of_.first_slot + of_.slot_count; ++slot) {
    const std::int32_t there = state.expert_in.i32()[slot];
    if (there < 0) return slot;
    if (state.held_in_wave[slot] == wave || state.is_hot.i32()[there] != 0) continue;
    const Rank rank(of_.rule.by_count ? state.times_asked.i32()[there] : 0, state.last_asked[there]);
    if (found >= 0 && best <= rank) continue;
    found = slot;
    best = rank;
  }
  return found;
}

std::int32_t SlotRules::place(std::int32_t expert, std::int64_t wave) const {
  const std::int32_t slot = find_slot(wave);
  if (slot < 0) return -1;
  std::int32_t& there = of_.state.expert_in.i32()[slot];
  if (there >= 0) {
    slot_of(there) = -1;
    ++of_.state.counters->evictions;
  }
  there = key(expert);
  slot_of(there) = slot;
  of_.state.held_in_wave[slot] = wave;
  std::int32_t& fetched = fetch_.count.i32()[0];
  fetch_.sources.i32()[fetched] = of_.first_source + expert;
  fetch_.slots.i32()[fetched++] = slot;
  return slot;
}

}  // namespace moetune
