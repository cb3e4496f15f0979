#include "engine/trace/hot_sets.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace moetune {
namespace {

using Uses = std::vector<std::int64_t>;  // (layers, experts)

std::vector<Uses> uses_by_kind(const RoutingTrace& trace) {
  std::vector<Uses> uses(
      trace.kind_names.size(),
      Uses(static_cast<std::size_t>(trace.layers) * static_cast<std::size_t>(trace.experts), 0));
  for (std::int64_t token = 0; token < trace.tokens(); ++token)
    for (int layer = 0; layer < trace.layers; ++layer)
      for (const std::int32_t id : trace.ids(token, layer))
        if (id >= 0)
          ++uses[static_cast<std::size_t>(trace.kinds[static_cast<std::size_t>(token)])]
                [static_cast<std::size_t>(layer) * static_cast<std::size_t>(trace.experts) +
                 static_cast<std::size_t>(id)];
  return uses;
}

std::int64_t total(const Uses& uses) { return std::accumulate(uses.begin(), uses.end(), std::int64_t{0}); }

// The `size` most used of every layer.
std::vector<bool> hottest(const Uses& uses, int layers, int experts, int size) {
  std::vector<bool> is_in(uses.size(), false);
  std::vector<std::size_t> order(static_cast<std::size_t>(experts));
  for (int layer = 0; layer < layers; ++layer) {
    const std::size_t first = static_cast<std::size_t>(layer) * static_cast<std::size_t>(experts);
    std::iota(order.begin(), order.end(), first);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t expert) { return uses[expert]; });
    for (int i = 0; i < size; ++i) is_in[order[static_cast<std::size_t>(i)]] = true;
  }
  return is_in;
}

double share_held(const Uses& uses, const std::vector<bool>& set) {
  std::int64_t held = 0;
  for (std::size_t expert = 0; expert < uses.size(); ++expert) held += set[expert] ? uses[expert] : 0;
  return static_cast<double>(held) / static_cast<double>(total(uses));
}

}  // namespace

HotSets hot_sets(const RoutingTrace& learn_from, const RoutingTrace& judged, double share) {
  const std::vector<Uses> learned = uses_by_kind(learn_from);
  const std::vector<Uses> seen = uses_by_kind(judged);
  const int size = std::clamp(static_cast<int>(std::lround(share * judged.experts)), 1, judged.experts);
  const auto set_of = [&](const Uses& uses) { return hottest(uses, judged.layers, judged.experts, size); };
  Uses all(learned.front().size(), 0);
  for (const Uses& uses : learned) std::ranges::transform(all, uses, all.begin(), std::plus<>());
  const std::vector<bool> set_of_all = set_of(all);

  HotSets sets;
  std::vector<std::size_t> kinds;
  for (std::size_t kind = 0; kind < learned.size(); ++kind)
    if (total(learned[kind]) > 0 && total(seen[kind]) > 0) kinds.push_back(kind);
  for (const std::size_t kind : kinds) {
    sets.kinds.push_back(judged.kind_names[kind]);
    const std::vector<bool> set = set_of(learned[kind]);
    std::vector<double>& row = sets.hit.emplace_back();
    for (const std::size_t other : kinds) row.push_back(share_held(seen[other], set));
    sets.hit_of_all.push_back(share_held(seen[kind], set_of_all));
  }
  for (std::size_t text = 0; text < kinds.size(); ++text) {
    double sum = 0.0;
    for (std::size_t set = 0; set < kinds.size(); ++set) sum += set == text ? 0.0 : sets.hit[set][text];
    sets.hit_by_other_kinds.push_back(kinds.size() < 2 ? 0.0 : sum / static_cast<double>(kinds.size() - 1));
  }
  return sets;
}

}  // namespace moetune
