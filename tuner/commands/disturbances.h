// What disturbed a measurement, once it is over, and the words that every command has for it. Start at
// disturbances_of().
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/commands/neighbour_watch.h"

namespace moetune {

// Each by name, in words; empty: nothing of the kind was seen.
struct Disturbances {
  std::vector<std::string> on_processors;
  std::vector<std::string> on_gpu;  // came while it was measured
  std::vector<std::string> arisen;  // doctor's findings that were not so before

  std::vector<std::string> all() const;
  // Nothing that was measured meanwhile holds: processors that others share only slow it down.
  bool is_worthless() const { return !on_gpu.empty() || !arisen.empty(); }
};

// While no worker of ours is there: see NeighbourWatch.
Disturbances disturbances_of(NeighbourWatch& watch);

// Lines for stderr. Processors that others shared slow down what is measured; what came to the GPU or arose
// makes it worthless: lines about the latter begin with `worthless`, such as "indeterminate: ". what_holds:
// of times taken beside others; empty: nothing that need be said.
std::vector<std::string> lines_about(const Disturbances& disturbances, const std::string& what_holds = "",
                                     const std::string& worthless = "");

// "other_work" and "arisen", empty arrays where nothing was seen.
void add_to(nlohmann::json& document, const Disturbances& disturbances);

}  // namespace moetune
