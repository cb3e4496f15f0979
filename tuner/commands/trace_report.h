// A trace's analysis as JSON and as tables for a terminal. Every part says whether it was measured, predicted
// or replayed.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/trace/trace_analysis.h"
#include "tuner/commands/trace_check.h"

namespace moetune {

struct TraceReport {
  RoutingTrace trace;
  TraceAnalysis analysis;
  std::optional<TraceCheck> check;
  std::string why_unchecked;  // where there is no check
  std::string text;           // which text the trace is of

  // Of an lru cache; where there is a check. What holds all experts is resident.
  double predicted_step_ms(int slots) const {
    if (slots >= all_experts(trace)) return check->resident_ms;
    return check->step_ms(asked_of_cache(trace, analysis.lru, slots));
  }
  // As the engine decodes by itself; where check->on_gpu is there.
  double predicted_step_ms(int slots, MissHandling miss) const {
    return check->on_gpu->step_ms(miss, asked_of_cache(trace, analysis.lru, slots));
  }
};

nlohmann::json to_json_value(const TraceReport& report);
std::string tables_of(const TraceReport& report);

}  // namespace moetune
