// LookUpSlots: which slots of an expert cache a layer's chosen experts lie in, and which of them give way to
// those that are missing, decided where the routing is, so that the host is never asked. It says what is to
// be fetched; FetchExperts fetches it. The rules are those of engine/slot_directory.h, slot for slot.
//
// A step that asks for more distinct experts than there are slots takes waves: the first one (asks) counts
// the experts and serves what is resident, each later one goes on with those that found no slot. Capacities
// decide how many waves are run; one for which nothing is left gives a table without experts.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Who leaves: the one not asked for longest, or (by_count) the one asked for in the fewest steps.
struct EvictionRule {
  bool by_count = false;
  bool keeps_hot = false;  // a layer's hottest experts stay
};

// Sums since they were last set to zero.
struct SlotCounters {
  std::int64_t lookups;         // (token, rank) pairs
  std::int64_t hits;            // distinct experts of a layer's step found resident
  std::int64_t misses;          // and not
  std::int64_t missing_layers;  // layers' steps that missed any
  std::int64_t evictions;
  std::int64_t fetched;         // experts brought in because they were asked for
  std::int64_t ahead;           // and before (place_ahead.h)
  std::int64_t ahead_in_vain;   // of them: those that the step they were meant for did not ask for
  std::int64_t fetch_ns;        // while nothing else of the step could run: by the device's clock
  std::int64_t fetch_began_ns;  // of the fetch under way
};

// What is remembered between steps. Every array lies on the device.
struct SlotState {
  Tensor slot_of;      // (layers, experts) i32: its slot, or -1
  Tensor expert_in;    // (slots) i32: layer * experts + expert, -1: free
  Tensor times_asked;  // (layers, experts) i32
  Tensor is_hot;       // (layers, experts) i32, 0 or 1
  Tensor hot;          // (layers, experts) i32: layer * experts + expert of the hot ones, in front
  Tensor hot_count;    // (layers) i32
  Tensor ahead;        // (2 + experts) i32: how many experts were placed ahead, for which layer, and which
  std::int64_t* last_asked = nullptr;    // (layers, experts): value of the clock then, 0: never
  std::int64_t* step_began = nullptr;    // (layers): value of the clock before the layer's last step
  std::int64_t* held_in_wave = nullptr;  // (slots)
  std::int64_t* clock = nullptr;         // (2): experts asked for so far, waves so far
  SlotCounters* counters = nullptr;
};

// The part of it that one layer's experts may change.
struct LayerSlots {
  SlotState state;
  EvictionRule rule{};
  int layer = 0;       // among those that route
  int first_slot = 0;  // slots that this layer's experts may take: first_slot .. first_slot + slot_count - 1
  int slot_count = 0;
  int first_source = 0;  // block of the store with the layer's expert 0
};

// What a wave needs.
struct FetchList {
  Tensor count;    // (1) i32
  Tensor sources;  // (experts) i32: block of the store, in order of first appearance
  Tensor slots;    // (experts) i32
};

struct LookUpSlots {
  Tensor ids;        // (tokens, k) i32; the ids of a token differ. Read where asks
  bool asks = true;  // the first wave of a layer's step
  LayerSlots of;
  int most_hot = 0;   // of this layer, where the rule keeps hot ones
  Tensor pending;     // (1 + experts) i32: how many are left for the next wave, and which
  Tensor wave_table;  // (experts) i32, written: slot of each expert of this wave, else -1
  FetchList fetch;    // written
};
void run(Cpu& cpu, const LookUpSlots& op);
// At most 1,024 experts in a layer: throws std::invalid_argument.
void run(Cuda& cuda, const LookUpSlots& op);

}  // namespace moetune
