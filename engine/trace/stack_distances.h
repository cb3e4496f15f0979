// Hit rate of every size of an LRU cache from one pass over a trace: Mattson's stack distances (IBM Systems
// Journal 9, 1970). A cache of n slots holds the n experts that were asked for last, so a request hits
// exactly the caches that are larger than its distance: the number of other experts asked for since. A
// layer's step asks for all its experts at once: distances are those before any of them is moved. Start at
// LruCurve.
//
// Exact for every cache that takes a layer's step in one wave (exact_from); smaller ones are for replay.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/trace/routing_trace.h"

namespace moetune {

struct LruCurve {
  std::vector<std::int64_t>
      hits;  // by slots, 0 .. experts of the cache: distinct experts of decode steps found resident
  std::int64_t lookups = 0;         // distinct experts of decode steps
  std::vector<std::int64_t> whole;  // by slots: layers of decode steps that found all they asked for
  std::int64_t layer_steps = 0;     // layers of decode steps
  int exact_from = 0;               // slots; the most distinct experts that one layer's step asks for

  double hit_rate(std::int64_t slots) const;
};

// One cache for all layers: policy lru.
LruCurve lru_curve(const RoutingTrace& trace);

// One cache per layer, in order: policy layer_lru. hits are indexed by a layer's own slots.
std::vector<LruCurve> layer_lru_curves(const RoutingTrace& trace);

}  // namespace moetune
