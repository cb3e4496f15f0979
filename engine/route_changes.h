// What top_k_rule and reroute_margin do to a router's choice, on the host and before any expert is looked up:
// a place of a token's list becomes -1 (no expert) or another expert. Weights are made anew afterwards
// (Route::ids_are_given). Pure functions over one step's choice; engine/feed_forward.cpp calls them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/route.h"

namespace moetune {

// Reads top_k_rule. threshold: 0 where the rule is another one. Throws nothing: the knob has checked the
// text.
struct TopKRule {
  double threshold = 0.0;  // threshold:t
  bool per_layer = false;

  static TopKRule of(const std::string& text);
};

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

// per_layer: how many experts each layer gets when all layers together have `total`. mass: (layers, k), the
// mean share of a token's scores that its first, second ... expert holds. Places are given where they hold
// most, at least one a layer, so a layer whose router is sure of itself has fewer. Equals go to the earlier
// layer.
std::vector<int> experts_of_layers(std::span<const double> mass, int k, int total);

}  // namespace moetune
