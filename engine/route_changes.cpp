#include "engine/route_changes.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace moetune {
namespace {

// The resident expert with the highest score that is not among those of the token; equals: the lower id.
std::optional<std::int32_t> best_resident(std::span<const float> scores, const std::vector<bool>& is_resident,
                                          std::span<const std::int32_t> chosen) {
  std::optional<std::int32_t> best;
  for (std::size_t expert = 0; expert < scores.size(); ++expert) {
    if (!is_resident[expert] || !std::isfinite(scores[expert]) ||
        (best && scores[expert] <= scores[static_cast<std::size_t>(*best)]))
      continue;
    const auto id = static_cast<std::int32_t>(expert);
    if (std::ranges::find(chosen, id) == chosen.end()) best = id;
  }
  return best;
}

}  // namespace

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

bool drop_below(double threshold, std::span<std::int32_t> ids, std::span<const float> weights, int k) {
  bool dropped = false;
  const auto width = static_cast<std::size_t>(k);
  for (std::size_t first = 0; first < ids.size(); first += width) {
    const std::span<const float> of_token = weights.subspan(first, width);
    // A selection bias can put an expert first that has not the largest weight.
    const double least = threshold * static_cast<double>(*std::ranges::max_element(of_token));
    for (std::size_t i = 0; i < width; ++i) {
      if (static_cast<double>(of_token[i]) >= least) continue;
      ids[first + i] = -1;
      dropped = true;
    }
  }
  return dropped;
}

bool drop_beyond(int kept, std::span<std::int32_t> ids, int k) {
  assert(kept >= 1);
  if (kept >= k) return false;
  for (std::size_t first = 0; first < ids.size(); first += static_cast<std::size_t>(k))
    std::ranges::fill(ids.subspan(first + static_cast<std::size_t>(kept), static_cast<std::size_t>(k - kept)),
                      -1);
  return true;
}

std::int64_t reroute(double margin, const Route& route, std::span<const float> logits,
                     std::span<const std::int32_t> slot_of_expert, std::span<std::int32_t> ids, int k) {
  const std::size_t experts = slot_of_expert.size();
  std::vector<bool> is_resident(experts);
  for (std::size_t expert = 0; expert < experts; ++expert) is_resident[expert] = slot_of_expert[expert] >= 0;
  std::vector<float> scores(experts);
  std::int64_t replaced = 0;
  const auto width = static_cast<std::size_t>(k);
  for (std::size_t first = 0, token = 0; first < ids.size(); first += width, ++token) {
    const std::span<std::int32_t> chosen = ids.subspan(first, width);
    choice_scores(route, logits.subspan(token * experts, experts), scores);
    for (std::int32_t& id : chosen) {
      if (id < 0 || is_resident[static_cast<std::size_t>(id)]) continue;
      const auto other = best_resident(scores, is_resident, chosen);
      const auto score = static_cast<double>(scores[static_cast<std::size_t>(id)]);
      const double least = score - margin * std::abs(score);  // a bias may make scores negative
      if (other && static_cast<double>(scores[static_cast<std::size_t>(*other)]) >= least) {
        id = *other;
        ++replaced;
      } else {
        is_resident[static_cast<std::size_t>(id)] = true;
      }
    }
  }
  return replaced;
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
