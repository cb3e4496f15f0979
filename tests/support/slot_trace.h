// Invented routing of several layers, and what a lookup of it decided, for tests of the ops that look up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/place_ahead.h"
#include "kernels/run.h"
#include "kernels/slot_lookup.h"
#include "kernels/slot_memory.h"
#include "tests/support/tensors.h"

namespace moetune::testing {

struct CacheCase {
  std::string name;
  EvictionRule rule;
  bool has_own_slots = false;  // every layer an equal share
  int layers = 3;
  int experts = 11;
  int slots = 7;
  int k = 2;

  int share_begin(int layer) const { return layer * (slots / layers) + std::min(layer, slots % layers); }
  int share(int layer) const { return slots / layers + (layer < slots % layers ? 1 : 0); }
};

// (tokens, k) ids of each layer in turn, low experts more often than high ones, those of a token different.
inline std::vector<std::vector<std::int32_t>> invented_steps(const CacheCase& of, int steps, int tokens,
                                                             unsigned seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> skewed(2.5 / of.experts);
  std::vector<std::vector<std::int32_t>> made;
  for (int step = 0; step < steps; ++step)
    for (int layer = 0; layer < of.layers; ++layer) {
      std::vector<std::int32_t> ids;
      for (int token = 0; token < tokens; ++token) {
        const auto begin = static_cast<std::ptrdiff_t>(ids.size());
        while (std::ssize(ids) < begin + of.k) {
          const int expert = (skewed(random) + 3 * layer) % of.experts;
          if (std::find(ids.begin() + begin, ids.end(), expert) == ids.end()) ids.push_back(expert);
        }
      }
      made.push_back(std::move(ids));
    }
  return made;
}

// The same with no expert (-1) in some places.
inline std::vector<std::vector<std::int32_t>> with_some_dropped(
    std::vector<std::vector<std::int32_t>> steps) {
  for (std::size_t step = 0; step < steps.size(); ++step)
    for (std::size_t i = 0; i < steps[step].size(); ++i)
      if ((step + 2 * i) % 5 == 1) steps[step][i] = -1;
  return steps;
}

inline LayerSlots layer_slots(const CacheCase& of, const SlotMemory& memory, int layer) {
  return {.state = memory.state(),
          .rule = of.rule,
          .layer = layer,
          .first_slot = of.has_own_slots ? of.share_begin(layer) : 0,
          .slot_count = of.has_own_slots ? of.share(layer) : of.slots,
          .first_source = layer * of.experts};
}

inline LookUpSlots look_up_op(const CacheCase& of, const SlotMemory& memory, const Tensor& ids, int layer,
                              bool asks) {
  return {.ids = ids,
          .asks = asks,
          .of = layer_slots(of, memory, layer),
          .most_hot = of.share(layer) / 2,
          .pending = memory.pending(),
          .wave_table = memory.wave_table(),
          .fetch = memory.fetch()};
}

// For the layer that comes next; ids: guesses, or empty.
inline PlaceAhead place_ahead_op(const CacheCase& of, const SlotMemory& memory, const Tensor& ids,
                                 int layer) {
  return {.ids = ids,
          .of = layer_slots(of, memory, layer),
          .most = of.share(layer),
          .is_between_steps = layer == 0,
          .fetch = memory.fetch_ahead()};
}

inline std::vector<std::int32_t> integers_in(Device& device, const Tensor& from) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(from.elements()));
  copy_to_host(device, from.data(), values.data(), from.elements() * element_bytes(NumberType::i32));
  return values;
}

// source, slot, source, slot, ...
inline std::vector<std::int32_t> listed_in(Device& device, const FetchList& list) {
  const std::vector<std::int32_t> sources = integers_in(device, list.sources);
  const std::vector<std::int32_t> slots = integers_in(device, list.slots);
  std::vector<std::int32_t> listed;
  for (std::int32_t i = 0; i < integers_in(device, list.count)[0]; ++i) {
    listed.push_back(sources[static_cast<std::size_t>(i)]);
    listed.push_back(slots[static_cast<std::size_t>(i)]);
  }
  return listed;
}

// What one wave left behind.
struct Wave {
  std::vector<std::int32_t> table;    // (experts)
  std::vector<std::int32_t> fetched;  // source, slot, source, slot, ...
  std::int32_t pending = 0;
  bool operator==(const Wave&) const = default;
};

inline Wave wave_in(Device& device, const SlotMemory& memory) {
  return {.table = integers_in(device, memory.wave_table()),
          .fetched = listed_in(device, memory.fetch()),
          .pending = integers_in(device, memory.pending())[0]};
}

// Four policies, odd sizes: few slots, slots that do not divide, as many slots as experts.
inline std::vector<CacheCase> cache_cases() {
  std::vector<CacheCase> cases;
  for (const int slots : {6, 10, 17, 32, 33})
    for (const auto& [name, rule, own] : {std::tuple{"lru", EvictionRule{}, false},
                                          {"lfu", EvictionRule{.by_count = true}, false},
                                          {"layer_lru", EvictionRule{}, true},
                                          {"pinned", EvictionRule{.keeps_hot = true}, false}})
      cases.push_back({.name = name, .rule = rule, .has_own_slots = own, .slots = slots});
  return cases;
}

}  // namespace moetune::testing
