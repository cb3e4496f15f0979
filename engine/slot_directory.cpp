#include "engine/slot_directory.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace moetune {

SlotDirectory::SlotDirectory(const Shape& shape) : shape_(shape) {
  assert(shape.layers >= 1 && shape.experts >= 1 && shape.slots >= 1 &&
         shape.slots <= shape.layers * shape.experts);
  const std::size_t experts =
      static_cast<std::size_t>(shape.layers) * static_cast<std::size_t>(shape.experts);
  slots_.resize(static_cast<std::size_t>(shape.slots));
  slot_of_.assign(experts, -1);
  last_asked_.assign(experts, 0);
  times_asked_.assign(experts, 0);
  is_hot_.assign(experts, false);
  hot_of_layer_.resize(static_cast<std::size_t>(shape.layers));
}

std::span<const std::int32_t> SlotDirectory::table(int layer) const {
  return std::span(slot_of_).subspan(key(layer, 0), static_cast<std::size_t>(shape_.experts));
}

bool SlotDirectory::look_up(int layer, int expert) {
  const std::size_t asked = key(layer, expert);
  last_asked_[asked] = ++clock_;
  ++times_asked_[asked];
  if (shape_.policy == CachePolicy::pinned) update_hot(layer, static_cast<std::int32_t>(asked));
  return slot_of_[asked] >= 0;
}

void SlotDirectory::hold(int layer, int expert) {
  const std::int32_t slot = slot_of_[key(layer, expert)];
  assert(slot >= 0);
  slots_[static_cast<std::size_t>(slot)].held_in_wave = wave_;
}

std::optional<SlotDirectory::Placement> SlotDirectory::place(int layer, int expert) {
  return place(layer, expert, true);
}

std::optional<SlotDirectory::Placement> SlotDirectory::place_if_free(int layer, int expert) {
  return place(layer, expert, false);
}

std::optional<SlotDirectory::Placement> SlotDirectory::place(int layer, int expert, bool may_evict) {
  const std::size_t wanted = key(layer, expert);
  assert(slot_of_[wanted] < 0);
  const Slice range =
      shape_.policy == CachePolicy::layer_lru ? slots_of_layer(layer) : Slice{0, shape_.slots};
  Slot* chosen = nullptr;
  for (std::int64_t index = range.begin; index < range.begin + range.count; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.expert < 0) {  // the first free slot wins
      chosen = &slot;
      break;
    }
    if (!may_evict || slot.held_in_wave == wave_ || is_hot_[static_cast<std::size_t>(slot.expert)]) continue;
    if (chosen == nullptr || leaves_before(slot, *chosen)) chosen = &slot;
  }
  if (chosen == nullptr) return std::nullopt;

  const Placement placement{static_cast<int>(chosen - slots_.data()), chosen->expert >= 0};
  if (placement.evicted) slot_of_[static_cast<std::size_t>(chosen->expert)] = -1;
  slot_of_[wanted] = placement.slot;
  *chosen = {static_cast<std::int32_t>(wanted), wave_};
  return placement;
}

void SlotDirectory::remove(int layer, int expert) {
  std::int32_t& index = slot_of_[key(layer, expert)];
  assert(index >= 0);
  slots_[static_cast<std::size_t>(index)] = {};
  index = -1;
}

Slice SlotDirectory::slots_of_layer(int layer) const {
  return Shard{layer, shape_.layers}.part_of(shape_.slots);
}

int SlotDirectory::slots_for_sure(int layer) const {
  if (shape_.policy == CachePolicy::layer_lru) return static_cast<int>(slots_of_layer(layer).count);
  int kept = 0;  // by hot ones that nobody asks for
  if (shape_.policy == CachePolicy::pinned)
    for (int other = 0; other < shape_.layers; ++other) kept += static_cast<int>(slots_of_layer(other).count / 2);
  return shape_.slots - kept;
}

bool SlotDirectory::leaves_before(const Slot& a, const Slot& b) const {
  const auto first = static_cast<std::size_t>(a.expert);
  const auto second = static_cast<std::size_t>(b.expert);
  if (shape_.policy == CachePolicy::lfu && times_asked_[first] != times_asked_[second])
    return times_asked_[first] < times_asked_[second];
  return last_asked_[first] < last_asked_[second];
}

// Counts only grow, so the expert that was just asked for is the only one that can enter the hot ones, and
// the coldest of them the only one that can leave. Equals stay outside.
void SlotDirectory::update_hot(int layer, std::int32_t expert_key) {
  if (is_hot_[static_cast<std::size_t>(expert_key)]) return;
  std::vector<std::int32_t>& hot = hot_of_layer_[static_cast<std::size_t>(layer)];
  const auto most = static_cast<std::size_t>(slots_of_layer(layer).count / 2);
  if (hot.size() < most) {
    hot.push_back(expert_key);
  } else {
    const auto heat = [this](std::int32_t expert) {
      const auto index = static_cast<std::size_t>(expert);
      return std::pair(times_asked_[index], last_asked_[index]);
    };
    const auto coldest = std::ranges::min_element(hot, {}, heat);
    if (coldest == hot.end() || times_asked_[static_cast<std::size_t>(*coldest)] >=
                                    times_asked_[static_cast<std::size_t>(expert_key)])
      return;
    is_hot_[static_cast<std::size_t>(*coldest)] = false;
    *coldest = expert_key;
  }
  is_hot_[static_cast<std::size_t>(expert_key)] = true;
}

}  // namespace moetune
