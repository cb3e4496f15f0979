// What a trace leaves to be searched: the sizes of the expert cache and, on a GPU, for each of them the ways
// of handling a miss that the measured costs of a miss (engine/miss_costs.h) leave in the race. Start at
// trace_space().
#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tuner/commands/trace_report.h"

namespace moetune {

// A way whose predicted step takes more times the best way's is not searched. How far predictions were off:
// reports/decisions/0019.
inline constexpr double most_behind = 1.25;

// A space document (search_spaces/search_space.schema.json). settings: knobs that the trace was taken with;
// they stay as they are. The report must have a check.
nlohmann::json trace_space(const TraceReport& report, const std::map<std::string, std::string>& settings);

}  // namespace moetune
