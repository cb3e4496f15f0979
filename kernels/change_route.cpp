// Start at run(): what is dropped, then who is replaced, then the weights of those who stay.
#include "kernels/change_route.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <vector>

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

// The rows of (tokens, columns), one behind the other.
template <class T>
std::span<T> all_of(T* data, const Tensor& tensor) {
  assert(tensor.contiguous());
  return {data, static_cast<std::size_t>(tensor.elements())};
}

}  // namespace

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

void run(Cpu& cpu, const ChangeRoute& op) {
  const auto k = static_cast<int>(op.route.ids.dim(1));
  const std::span<std::int32_t> ids = all_of(op.route.ids.i32(), op.route.ids);
  bool changed = false;
  if (op.threshold > 0.0)
    changed = drop_below(op.threshold, ids, all_of(op.route.weights.f32(), op.route.weights), k);
  if (op.kept > 0) changed = drop_beyond(op.kept, ids, k) || changed;
  if (op.margin > 0.0) {
    const std::int64_t replaced = reroute(op.margin, op.route, all_of(op.route.logits.f32(), op.route.logits),
                                          all_of(op.slot_of_expert.i32(), op.slot_of_expert), ids, k);
    *op.replaced += replaced;
    changed = changed || replaced > 0;
  }
  if (!changed) return;
  Route again = op.route;
  again.ids_are_given = true;
  run(cpu, again);
}

}  // namespace moetune
