#include "engine/route_changes.h"

#include <cassert>
#include <charconv>
#include <string_view>

namespace moetune {

TopKRule TopKRule::of(const std::string& text) {
  constexpr std::string_view threshold = "threshold:";
  TopKRule rule{.threshold = 0.0, .per_layer = text == "per_layer"};
  if (text.starts_with(threshold)) {
    [[maybe_unused]] const auto [end, error] =
        std::from_chars(text.data() + threshold.size(), text.data() + text.size(), rule.threshold);
    assert(error == std::errc());
  }
  return rule;
}

std::vector<int> experts_of_layers(std::span<const double> mass, int k, int total) {
  const std::size_t layers = mass.size() / static_cast<std::size_t>(k);
  std::vector<int> kept(layers, 1);
  for (int given = static_cast<int>(layers); given < total; ++given) {
    std::size_t best = layers;
    const auto next_mass = [&](std::size_t layer) {
      return mass[layer * static_cast<std::size_t>(k) + static_cast<std::size_t>(kept[layer])];
    };
    for (std::size_t layer = 0; layer < layers; ++layer)
      if (kept[layer] < k && (best == layers || next_mass(layer) > next_mass(best))) best = layer;
    if (best == layers) break;
    ++kept[best];
  }
  return kept;
}

}  // namespace moetune
