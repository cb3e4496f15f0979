// What the knob top_k_rule says, and how many experts each layer has under it. What is done to a router's
// choice is an op (kernels/change_route.h).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace moetune {

// Reads top_k_rule. threshold: 0 where the rule is another one. Throws nothing: the knob has checked the
// text.
struct TopKRule {
  double threshold = 0.0;  // threshold:t
  bool per_layer = false;

  static TopKRule of(const std::string& text);
};

// per_layer: how many experts each layer gets when all layers together have `total`. mass: (layers, k), the
// mean share of a token's scores that its first, second ... expert holds. Places are given where they hold
// most, at least one a layer, so a layer whose router is sure of itself has fewer. Equals go to the earlier
// layer.
std::vector<int> experts_of_layers(std::span<const double> mass, int k, int total);

}  // namespace moetune
