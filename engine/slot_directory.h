// Which routed expert lies in which slot of the expert cache, and which one leaves when another needs room.
// Pure logic: no weights, no clock, no threads. Start at look_up() and place().
//
//   lru        the expert not asked for longest leaves, whatever its layer
//   lfu        the one asked for in the fewest steps leaves; among equals the one not asked for longest
//   layer_lru  every layer has an equal share of the slots and its own lru: a sweep through all layers,
//              which is what a token is, cannot empty the cache of the layers that come next
//   pinned     every layer's hottest experts, those asked for in the most steps so far and half of its share
//              in number, stay where they are; the other slots are one lru
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/eviction_queue.h"
#include "engine/facts/engine_options.h"
#include "engine/shard.h"
#include "kernels/slot_record.h"

namespace moetune {

class SlotDirectory {
 public:
  struct Shape {
    int layers = 0;   // that route
    int experts = 0;  // per layer
    int slots = 0;    // over all layers, 1 .. layers * experts
    CachePolicy policy = CachePolicy::layer_lru;
    int weight_layers = 0;  // sets of experts that the layers share (folding.h); 0: each has its own
  };
  explicit SlotDirectory(const Shape& shape);

  const Shape& shape() const { return shape_; }

  // One per expert of a layer: its slot, or -1.
  std::span<const std::int32_t> table(int layer) const;
  std::span<const std::int32_t> tables() const { return slot_of_; }  // (layers, experts)

  // A step asks for an expert: counts towards recency and frequency. True when it is resident.
  bool look_up(int layer, int expert);

  // An expert in use by the running wave: stays where it is until release_all().
  void hold(int layer, int expert);
  void release_all() { ++wave_; }

  // Gives a non-resident expert a slot, held at once. Empty when all slots it may have are held.
  struct Placement {
    int slot = 0;
    bool evicted = false;
  };
  std::optional<Placement> place(int layer, int expert);

  // The same without throwing anything out: empty when no slot is free.
  std::optional<Placement> place_if_free(int layer, int expert);

  // Forgets a placement whose contents could not be brought in.
  void remove(int layer, int expert);

  // What it remembers, for a device that goes on with it.
  SlotRecord record() const;

  // Slots of a layer of its own under layer_lru, and its share under pinned.
  Slice slots_of_layer(int layer) const;

  // So many distinct experts of a layer have room at the same time, whatever else is resident.
  int slots_for_sure(int layer) const;

 private:
  struct Slot {
    std::int32_t expert = -1;  // layer * experts + expert; -1: free
    std::uint64_t held_in_wave = 0;
    bool is_queued = false;
  };

  std::size_t key(int layer, int expert) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(shape_.experts) +
           static_cast<std::size_t>(expert);
  }
  // Slots that experts of a layer may take from each other: those of the layer, or all.
  struct Pool {
    std::vector<std::int32_t> free;  // a heap, the first slot on top
    EvictionQueue queue;             // those that are taken, except where a hot expert came to the front
    std::uint64_t nobody_leaves_in_wave = 0;
  };
  Pool& pool_of(int layer) {
    return pools_[shape_.policy == CachePolicy::layer_lru ? static_cast<std::size_t>(layer) : 0];
  }
  EvictionQueue::Rank rank_of(std::int32_t slot) const;
  std::optional<std::int32_t> take_free(Pool& pool);
  std::optional<std::int32_t> take_victim(Pool& pool);
  std::optional<Placement> place(int layer, int expert, bool may_evict);
  void update_hot(int layer, std::int32_t expert_key);
  void cool_down(int layer, std::int32_t expert_key);

  Shape shape_;
  std::vector<Slot> slots_;
  std::vector<Pool> pools_;                 // layer_lru: one per layer; else one
  std::vector<std::int32_t> slot_of_;       // per expert of every layer
  std::vector<std::uint64_t> last_asked_;   // per expert of every layer: value of clock_ then
  std::vector<std::uint64_t> times_asked_;  // per expert of every layer
  std::vector<bool> is_hot_;                // per expert of every layer; only under pinned
  std::vector<std::vector<std::int32_t>> hot_of_layer_;
  std::uint64_t clock_ = 0;
  std::uint64_t wave_ = 1;
};

}  // namespace moetune
