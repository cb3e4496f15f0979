#include "engine/trace/routing_trace.h"

#include <algorithm>

namespace moetune {
namespace {

bool has_repeats(std::vector<std::int32_t> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) != values.end();
}

}  // namespace

std::int64_t RoutingTrace::decode_tokens() const { return std::ranges::count(decodes, 1); }

RoutingTrace RoutingTrace::part(const std::function<bool(std::int32_t)>& is_wanted) const {
  RoutingTrace some;
  some.model = model;
  some.model_hash = model_hash;
  some.layers = layers;
  some.experts = experts;
  some.k = k;
  some.expert_bytes = expert_bytes;
  some.kind_names = kind_names;
  const auto width = static_cast<std::ptrdiff_t>(layers) * k;
  std::int32_t last_step = -1;
  for (std::int64_t token = 0; token < tokens(); ++token) {
    const auto at = static_cast<std::size_t>(token);
    if (!is_wanted(sequences[at])) continue;
    const bool is_new = some.steps.empty() || steps[at] != last_step;
    last_step = steps[at];
    some.steps.push_back((some.steps.empty() ? 0 : some.steps.back() + (is_new ? 1 : 0)));
    some.token_ids.push_back(token_ids[at]);
    some.sequences.push_back(sequences[at]);
    some.positions.push_back(positions[at]);
    some.decodes.push_back(decodes[at]);
    some.kinds.push_back(kinds[at]);
    const auto copy_row = [&](const auto& from, auto& to) {
      to.insert(to.end(), from.begin() + token * width, from.begin() + (token + 1) * width);
    };
    copy_row(expert_ids, some.expert_ids);
    copy_row(expert_weights, some.expert_weights);
    copy_row(foreseen, some.foreseen);
  }
  return some;
}

void for_each_layer_step(const RoutingTrace& trace, const std::function<void(const LayerStep&)>& visit) {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> foreseen;
  for (std::int64_t first = 0; first < trace.tokens();) {
    const std::int32_t step = trace.steps[static_cast<std::size_t>(first)];
    std::int64_t end = first;
    while (end < trace.tokens() && trace.steps[static_cast<std::size_t>(end)] == step) ++end;
    const bool is_one_each = !has_repeats({trace.sequences.begin() + first, trace.sequences.begin() + end});
    const auto tokens = static_cast<std::size_t>(end - first);
    for (int layer = 0; layer < trace.layers; ++layer) {
      ids.clear();
      foreseen.clear();
      for (std::int64_t token = first; token < end; ++token) {
        std::ranges::copy(trace.ids(token, layer), std::back_inserter(ids));
        std::ranges::copy(trace.foreseen_ids(token, layer), std::back_inserter(foreseen));
      }
      visit({.step = step,
             .layer = layer,
             .decodes = trace.decodes[static_cast<std::size_t>(first)] == 1,
             .is_one_each = is_one_each,
             .token_ids = std::span(trace.token_ids).subspan(static_cast<std::size_t>(first), tokens),
             .ids = ids,
             .foreseen = foreseen});
    }
    first = end;
  }
}

std::vector<std::int32_t> distinct_experts(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> distinct;
  std::vector<bool> seen;
  for (const std::int32_t id : ids) {
    if (id < 0) continue;
    const auto at = static_cast<std::size_t>(id);
    if (at >= seen.size()) seen.resize(at + 1, false);
    if (seen[at]) continue;
    seen[at] = true;
    distinct.push_back(id);
  }
  return distinct;
}

}  // namespace moetune
