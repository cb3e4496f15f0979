// Which experts each kind of text uses most, and what a fixed set of them is worth to text of its own kind
// and of others. Replayed only. Start at hot_sets().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/trace/routing_trace.h"

namespace moetune {

struct HotSets {
  std::vector<std::string> kinds;  // those that both parts have
  std::vector<std::vector<double>>
      hit;                         // [set of kind][text of kind]: share of its experts that the set holds
  std::vector<double> hit_of_all;  // [text of kind]: of the set made from all kinds together
  std::vector<double> hit_by_other_kinds;  // mean over the sets of the other kinds
};

// Sets hold `share` of every layer's experts (at least one), the most used ones of learn_from; they are
// judged on `judged`.
HotSets hot_sets(const RoutingTrace& learn_from, const RoutingTrace& judged, double share);

}  // namespace moetune
