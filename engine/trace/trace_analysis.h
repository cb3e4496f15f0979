// Everything that a trace alone can tell: hit rates of every cache size, what predictors and other caches
// would do. All of it is replayed. Start at analyse_trace().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/trace/hot_sets.h"
#include "engine/trace/routing_trace.h"
#include "engine/trace/stack_distances.h"
#include "engine/trace/trace_statistics.h"

namespace moetune {

// Hit rates are shares of the distinct experts that decode steps ask for.
struct CachePoint {
  int slots = 0;
  double share = 0.0;  // of all experts
  double lru = 0.0;
  double layer_lru = 0.0;
  double lfu = 0.0;
  double pinned = 0.0;
  double fixed = 0.0;  // the best set that never changes, chosen with hindsight
};

// Judged on the half of the sequences that the learned one did not learn from, beside a layer_lru cache of
// one size.
struct PredictorScore {
  std::string name;             // a value of the knob prefetch, "learned", or "none"
  bool runs_in_engine = false;  // false: replayed only
  double share = 0.0;           // of all experts that the cache holds
  double recall = 0.0;          // share of a layer's experts that were guessed
  double hit_rate = 0.0;
  std::int64_t misses = 0;
  std::int64_t ahead = 0;  // experts fetched early
  std::int64_t ahead_in_vain = 0;
  std::int64_t memory_bytes = 0;  // of what was learned
};

// Judged on the same half, clustered on the other.
struct GroupedScore {
  int group_size = 0;
  double share = 0.0;
  double hit_rate = 0.0;
  double layer_lru_hit_rate = 0.0;  // of single experts in a cache of the same size
  double loads_per_token = 0.0;     // experts brought in while decoding
  double layer_lru_loads_per_token = 0.0;
  double in_vain = 0.0;  // share of the loads
};

struct TraceAnalysis {
  TraceStatistics statistics;
  LruCurve lru;                    // every size
  std::vector<CachePoint> points;  // some sizes, every policy
  std::vector<PredictorScore> predictors;
  std::vector<GroupedScore> grouped;
  HotSets hot;  // sets of a quarter of the experts
  double hot_share = 0.0;
};

// A cache must hold so many experts: one token's, in every layer.
int fewest_slots(const RoutingTrace& trace);
int all_experts(const RoutingTrace& trace);

TraceAnalysis analyse_trace(const RoutingTrace& trace);

// LRU at one size: from the stack distances where they are exact, by replay below.
double lru_hit_rate(const RoutingTrace& trace, const LruCurve& curve, int slots);

}  // namespace moetune
