// The experts that an engine chose, kept so that another one can be made to take them: with the same experts
// on both sides only the arithmetic differs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace moetune::testing {

// By layer of the model, (tokens, k); tokens of all steps one after the other.
struct Routing {
  std::map<int, std::vector<std::int32_t>> ids;
  std::map<int, std::vector<float>> weights;
  int k = 0;
};

// Watches an engine until it is given another observer; routing must live as long.
inline void record_routing(Engine& engine, Routing& routing) {
  engine.observe_routing(
      [&routing](int layer, std::span<const std::int32_t> ids, std::span<const float> weights, int, int k) {
        routing.k = k;
        routing.ids[layer].insert(routing.ids[layer].end(), ids.begin(), ids.end());
        routing.weights[layer].insert(routing.weights[layer].end(), weights.begin(), weights.end());
      });
}

// Gives the recorded experts, token after token from the first one on, to an engine with one rank.
inline void replay_routing(Engine& engine, const Routing& routing) {
  engine.force_routing([&routing, next = std::map<int, std::size_t>()](int layer, std::span<std::int32_t> ids,
                                                                       int, int) mutable {
    const std::vector<std::int32_t>& all = routing.ids.at(layer);
    std::size_t& begin = next[layer];
    std::ranges::copy(std::span(all).subspan(begin, ids.size()), ids.begin());
    begin = (begin + ids.size()) % all.size();  // the same tokens may be run again
  });
}

// Share of the experts of `ours` that `theirs` did not choose at that token and layer.
inline double flip_rate(const Routing& ours, const Routing& theirs) {
  std::int64_t flipped = 0;
  std::int64_t chosen = 0;
  const auto k = static_cast<std::size_t>(ours.k);
  for (const auto& [layer, ids] : ours.ids) {
    const std::vector<std::int32_t>& others = theirs.ids.at(layer);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto token = std::span(others).subspan(i / k * k, k);
      flipped += std::ranges::find(token, ids[i]) == token.end() ? 1 : 0;
      ++chosen;
    }
  }
  return static_cast<double>(flipped) / static_cast<double>(chosen);
}

}  // namespace moetune::testing
