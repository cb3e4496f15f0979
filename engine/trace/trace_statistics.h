// What a trace says about its model, whatever caches it. Shares are of experts, means over layers unless a
// list has one entry per layer. Start at trace_statistics().
#pragma once

#include <map>
#include <vector>

#include "engine/trace/routing_trace.h"

namespace moetune {

struct TraceStatistics {
  // Of a decoded token's experts, those that the token before of the same sequence had chosen; by chance k /
  // experts.
  std::vector<double> same_as_last_token;  // per layer
  // Distinct experts that a layer's decode step asks for when so many sequences are side by side; absent
  // where the trace has fewer. The choice of a token does not depend on its neighbours, so steps are put
  // together from sequences recorded alone.
  std::map<int, double> distinct_per_step;
  std::map<int, double> distinct_by_chance;  // experts (1 - (1 - k / experts)^sequences)
  // Of the k experts that a sequence's prompt uses most in a layer, those among the k that its answer uses
  // most.
  double prompt_and_answer = 0.0;
  // Share of a token's scores that its first 1 .. k experts hold.
  std::vector<double> mass_of_first;
  // Of the experts of a layer, those that its gate chose one layer earlier; per layer, 0 for the first.
  std::vector<double> next_layer_recall;

  double mean_same_as_last_token() const;
  double mean_next_layer_recall() const;  // without the first layer, which has none before it
};

TraceStatistics trace_statistics(const RoutingTrace& trace);

}  // namespace moetune
