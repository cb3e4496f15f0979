// The predictions of a trace against the engine: its LRU cache at three sizes, hit rate and step time. Start
// at check_trace().
//
// A predicted step takes t_resident + what looking up costs + misses x cost of a miss + layers that miss x
// cost of going for them: a layer waits for its misses, so all of them are exposed. The costs are fitted to
// sizes measured here (step_costs.h): all experts, the smallest, near the largest and one in between; none of
// the three checked sizes has a part in them. How many layers miss is in the trace, too (LruCurve::whole).
//
// These steps take the trace's experts in place of the router's choice, which on a GPU breaks up its graphs.
// What a step takes there as the engine decodes by itself is predicted beside it, for every way of handling a
// miss, from costs that are measured one by one (engine/miss_costs.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/miss_costs.h"
#include "engine/trace/routing_trace.h"
#include "engine/trace/stack_distances.h"
#include "tuner/commands/step_costs.h"

namespace moetune {

struct CheckedSize {
  int slots = 0;
  double predicted_hit = 0.0;
  double measured_hit = 0.0;
  double predicted_ms = 0.0;  // per decode step; medians over sequences, as measured_ms
  double measured_ms = 0.0;
};

// What a size asks for on average, per decode step; from the trace.
StepMisses asked_of_cache(const RoutingTrace& trace, const LruCurve& lru, int slots);

struct TraceCheck {
  double resident_ms = 0.0;        // per decode step, measured
  StepCosts costs;                 // measured
  std::vector<int> calibrated_at;  // slots
  std::vector<CheckedSize> sizes;
  int prewarmed_slots = 0;            // of a layer_lru cache
  std::int64_t cold_misses = 0;       // of the last sequence, from an empty cache
  std::int64_t prewarmed_misses = 0;  // and from one that holds what the other sequences choose most often

  // Of a size that does not hold all experts.
  double step_ms(const StepMisses& asked) const { return resident_ms + costs.of(asked); }

  // Of a GPU; empty: a CPU, or experts that may not be pinned.
  struct OnGpu {
    double decode_ms = 0.0;  // all experts resident, the engine by itself: median of its steps
    MissCosts costs;

    double step_ms(MissHandling miss, const StepMisses& asked) const {
      return decode_ms + exposed_ms(costs.of(miss), asked);
    }
  };
  std::optional<OnGpu> on_gpu;
};

// options: what the trace was recorded with; limits: trace_limits(). Every size is a pass over the whole
// trace.
TraceCheck check_trace(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                       const EngineLimits& limits, const RoutingTrace& trace, const LruCurve& lru,
                       const std::function<void(const std::string&)>& say);

}  // namespace moetune
