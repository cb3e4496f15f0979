#include "engine/slot_directory.h"

#include <algorithm>
#include <cassert>
#include <functional>
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
  const bool has_own = shape.policy == CachePolicy::layer_lru;
  pools_.resize(has_own ? static_cast<std::size_t>(shape.layers) : 1);
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    const Slice share = has_own ? slots_of_layer(static_cast<int>(pool)) : Slice{0, shape.slots};
    for (std::int64_t slot = share.begin; slot < share.begin + share.count;
         ++slot)  // ascending: a heap already
      pools_[pool].free.push_back(static_cast<std::int32_t>(slot));
  }
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

std::optional<std::int32_t> SlotDirectory::take_free(Pool& pool) {
  if (pool.free.empty()) return std::nullopt;
  std::ranges::pop_heap(pool.free, std::greater<>());
  const std::int32_t slot = pool.free.back();
  pool.free.pop_back();
  return slot;
}

EvictionQueue::Rank SlotDirectory::rank_of(std::int32_t slot) const {
  const auto expert = static_cast<std::size_t>(slots_[static_cast<std::size_t>(slot)].expert);
  return {.times_asked = shape_.policy == CachePolicy::lfu ? times_asked_[expert] : 0,
          .last_asked = last_asked_[expert]};
}

std::optional<std::int32_t> SlotDirectory::take_victim(Pool& pool) {
  using Turn = EvictionQueue::Turn;
  if (pool.nobody_leaves_in_wave == wave_) return std::nullopt;  // what is held stays so
  const auto victim = pool.queue.take_first(
      [this](std::int32_t slot) { return rank_of(slot); },
      [this](std::int32_t index) {
        Slot& slot = slots_[static_cast<std::size_t>(index)];
        if (slot.held_in_wave == wave_) return Turn::waits;
        slot.is_queued = false;
        return is_hot_[static_cast<std::size_t>(slot.expert)] ? Turn::stays : Turn::leaves;
      });
  if (!victim) pool.nobody_leaves_in_wave = wave_;
  return victim;
}

std::optional<SlotDirectory::Placement> SlotDirectory::place(int layer, int expert, bool may_evict) {
  const std::size_t wanted = key(layer, expert);
  assert(slot_of_[wanted] < 0);
  Pool& pool = pool_of(layer);
  std::optional<std::int32_t> chosen = take_free(pool);
  const bool evicts = !chosen && may_evict;
  if (evicts) chosen = take_victim(pool);
  if (!chosen) return std::nullopt;

  Slot& slot = slots_[static_cast<std::size_t>(*chosen)];
  if (evicts) slot_of_[static_cast<std::size_t>(slot.expert)] = -1;
  slot_of_[wanted] = *chosen;
  slot = {.expert = static_cast<std::int32_t>(wanted), .held_in_wave = wave_, .is_queued = true};
  pool.queue.push(*chosen, rank_of(*chosen));
  return Placement{*chosen, evicts};
}

void SlotDirectory::remove(int layer, int expert) {
  std::int32_t& index = slot_of_[key(layer, expert)];
  assert(index >= 0);
  Pool& pool = pool_of(layer);
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (slot.is_queued) pool.queue.erase(index);
  slot = {};
  pool.free.push_back(index);
  std::ranges::push_heap(pool.free, std::greater<>());
  index = -1;
}

SlotRecord SlotDirectory::record() const {
  SlotRecord record{.slot_of = slot_of_,
                    .expert_in = {},
                    .times_asked = {times_asked_.begin(), times_asked_.end()},
                    .last_asked = {last_asked_.begin(), last_asked_.end()},
                    .hot = hot_of_layer_,
                    .clock = static_cast<std::int64_t>(clock_)};
  for (const Slot& slot : slots_) record.expert_in.push_back(slot.expert);
  return record;
}

Slice SlotDirectory::slots_of_layer(int layer) const {
  return Shard{layer, shape_.layers}.part_of(shape_.slots);
}

int SlotDirectory::slots_for_sure(int layer) const {
  if (shape_.policy == CachePolicy::layer_lru) return static_cast<int>(slots_of_layer(layer).count);
  int kept = 0;  // by hot ones that nobody asks for
  if (shape_.policy == CachePolicy::pinned)
    for (int other = 0; other < shape_.layers; ++other)
      kept += static_cast<int>(slots_of_layer(other).count / 2);
  return shape_.slots - kept;
}

// From now on it leaves by its rank.
void SlotDirectory::cool_down(int layer, std::int32_t expert_key) {
  is_hot_[static_cast<std::size_t>(expert_key)] = false;
  const std::int32_t index = slot_of_[static_cast<std::size_t>(expert_key)];
  if (index < 0 || slots_[static_cast<std::size_t>(index)].is_queued) return;
  slots_[static_cast<std::size_t>(index)].is_queued = true;
  pool_of(layer).queue.push(index, rank_of(index));
  pool_of(layer).nobody_leaves_in_wave = 0;
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
    cool_down(layer, *coldest);
    *coldest = expert_key;
  }
  is_hot_[static_cast<std::size_t>(expert_key)] = true;
}

}  // namespace moetune
