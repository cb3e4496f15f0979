// ChangeRoute: what top_k_rule and reroute_margin do to a router's choice before any expert is looked up. A
// place of a token's list becomes -1 (no expert) or another expert, and the weights are made anew
// (Route::ids_are_given). It runs where the routing is, so that a GPU's host need not know.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/route.h"
#include "kernels/tensor.h"

namespace moetune {

// All tensors contiguous.
struct ChangeRoute {
  Route route;                       // as it was run; its ids and weights are changed
  double threshold = 0.0;            // drop_below(); 0: nothing
  int kept = 0;                      // drop_beyond(); 0: all stay
  double margin = 0.0;               // reroute(); 0: nobody is replaced
  Tensor slot_of_expert{};           // (experts) i32, -1: not resident; read where margin > 0
  std::int64_t* replaced = nullptr;  // on the device: grows by the experts that others replaced; the same

  bool changes() const { return threshold > 0.0 || kept > 0 || margin > 0.0; }
};
void run(Cpu& cpu, const ChangeRoute& op);
// Throws std::invalid_argument beyond the capacities of Route.
void run(Cuda& cuda, const ChangeRoute& op);

// threshold: an expert whose weight is below `threshold` times the token's largest is dropped; never all of
// them. ids, weights: (tokens, k), best first. True when something was dropped.
bool drop_below(double threshold, std::span<std::int32_t> ids, std::span<const float> weights, int k);

// per_layer: of every token the first `kept` stay. ids: (tokens, k), best first.
bool drop_beyond(int kept, std::span<std::int32_t> ids, int k);

// Cache-aware routing in the manner of arXiv 2412.00099: a chosen expert that is not resident gives way to
// the best resident one that the token has not chosen, where the score by which experts are chosen
// (choice_scores()) is at most `margin` of its own below it. An expert that could not be replaced is fetched,
// and counts as resident for the tokens after it. route: rule, bias and groups. logits: (tokens, experts).
// slot_of_expert: (experts), -1: not resident. Changes ids, (tokens, k); returns how many it replaced.
std::int64_t reroute(double margin, const Route& route, std::span<const float> logits,
                     std::span<const std::int32_t> slot_of_expert, std::span<std::int32_t> ids, int k);

}  // namespace moetune
