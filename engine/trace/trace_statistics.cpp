#include "engine/trace/trace_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace moetune {
namespace {

constexpr std::array kSideBySide{1, 4, 32};

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::ranges::count_if(
      a, [&](std::int32_t id) { return id >= 0 && std::ranges::find(b, id) != b.end(); });
}
std::int64_t experts_in(std::span<const std::int32_t> ids) {
  return std::ssize(ids) - std::ranges::count(ids, -1);
}
double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The decoded tokens of every sequence, in order.
std::map<std::int32_t, std::vector<std::int64_t>> answers_of(const RoutingTrace& trace) {
  std::map<std::int32_t, std::vector<std::int64_t>> answers;
  for (std::int64_t token = 0; token < trace.tokens(); ++token)
    if (trace.decodes[static_cast<std::size_t>(token)] == 1)
      answers[trace.sequences[static_cast<std::size_t>(token)]].push_back(token);
  return answers;
}

std::vector<double> same_as_last_token(const RoutingTrace& trace) {
  std::vector<std::int64_t> same(static_cast<std::size_t>(trace.layers), 0);
  std::vector<std::int64_t> all(same);
  std::map<std::int32_t, std::int64_t> last;  // token of a sequence
  for (std::int64_t token = 0; token < trace.tokens(); ++token) {
    const auto at = static_cast<std::size_t>(token);
    const auto before = last.find(trace.sequences[at]);
    if (trace.decodes[at] == 1 && before != last.end())
      for (int layer = 0; layer < trace.layers; ++layer) {
        same[static_cast<std::size_t>(layer)] +=
            common(trace.ids(token, layer), trace.ids(before->second, layer));
        all[static_cast<std::size_t>(layer)] += experts_in(trace.ids(token, layer));
      }
    last[trace.sequences[at]] = token;
  }
  std::vector<double> shares;
  for (std::size_t layer = 0; layer < same.size(); ++layer) shares.push_back(share(same[layer], all[layer]));
  return shares;
}

// Of `side_by_side` sequences at a time, the i-th tokens of their answers; 0: there are not as many
// sequences.
double distinct_per_step(const RoutingTrace& trace,
                         const std::map<std::int32_t, std::vector<std::int64_t>>& answers, int side_by_side) {
  std::vector<const std::vector<std::int64_t>*> lists;
  for (const auto& [sequence, tokens] : answers) lists.push_back(&tokens);
  const auto group = static_cast<std::size_t>(side_by_side);
  std::int64_t distinct = 0;
  std::int64_t layer_steps = 0;
  std::vector<std::int32_t> ids;
  for (std::size_t first = 0; first + group <= lists.size(); first += group) {
    const auto some = std::span(lists).subspan(first, group);
    const std::size_t steps =
        (*std::ranges::min_element(some, {}, [](const auto* list) { return list->size(); }))->size();
    for (std::size_t step = 0; step < steps; ++step)
      for (int layer = 0; layer < trace.layers; ++layer) {
        ids.clear();
        for (const auto* list : some)
          std::ranges::copy(trace.ids((*list)[step], layer), std::back_inserter(ids));
        distinct += std::ssize(distinct_experts(ids));
        ++layer_steps;
      }
  }
  return share(distinct, layer_steps);
}

// The experts used most, at most k, of those used at all; equals: the lower id.
std::vector<std::int32_t> most_used(const std::vector<std::int64_t>& uses, int k) {
  std::vector<std::int32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int32_t id) { return uses[static_cast<std::size_t>(id)]; });
  order.resize(static_cast<std::size_t>(
      std::min<std::int64_t>(k, std::ranges::count_if(uses, [](std::int64_t n) { return n > 0; }))));
  return order;
}

double prompt_and_answer(const RoutingTrace& trace) {
  // uses[sequence, layer] = {in the prompt, in the answer}, each by expert
  std::map<std::pair<std::int32_t, int>, std::array<std::vector<std::int64_t>, 2>> uses;
  for (std::int64_t token = 0; token < trace.tokens(); ++token)
    for (int layer = 0; layer < trace.layers; ++layer) {
      const auto at = static_cast<std::size_t>(token);
      auto& counts = uses[{trace.sequences[at], layer}];
      for (auto& list : counts) list.resize(static_cast<std::size_t>(trace.experts), 0);
      for (const std::int32_t id : trace.ids(token, layer))
        if (id >= 0) ++counts[static_cast<std::size_t>(trace.decodes[at])][static_cast<std::size_t>(id)];
    }
  std::int64_t both = 0;
  std::int64_t all = 0;
  for (const auto& [key, counts] : uses) {
    const std::vector<std::int32_t> prompt = most_used(counts[0], trace.k);
    const std::vector<std::int32_t> answer = most_used(counts[1], trace.k);
    if (prompt.empty() || answer.empty()) continue;
    both += common(prompt, answer);
    all += std::ssize(prompt);
  }
  return share(both, all);
}

std::vector<double> mass_of_first(const RoutingTrace& trace) {
  std::vector<double> mass(static_cast<std::size_t>(trace.k), 0.0);
  const double lists = static_cast<double>(trace.tokens() * trace.layers);
  for (std::int64_t token = 0; token < trace.tokens(); ++token)
    for (int layer = 0; layer < trace.layers; ++layer) {
      const std::span<const float> weights = trace.weights(token, layer);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      if (sum <= 0.0) continue;
      double first = 0.0;
      for (std::size_t i = 0; i < mass.size(); ++i)
        mass[i] += (first += static_cast<double>(weights[i])) / sum / lists;
    }
  return mass;
}

std::vector<double> next_layer_recall(const RoutingTrace& trace) {
  std::vector<double> recall;
  for (int layer = 0; layer < trace.layers; ++layer) {
    std::int64_t found = 0;
    std::int64_t all = 0;
    for (std::int64_t token = 0; token < trace.tokens(); ++token) {
      if (trace.decodes[static_cast<std::size_t>(token)] == 0) continue;
      found += common(trace.ids(token, layer), trace.foreseen_ids(token, layer));
      all += experts_in(trace.ids(token, layer));
    }
    recall.push_back(share(found, all));
  }
  return recall;
}

double mean(std::span<const double> values) {
  return values.empty()
             ? 0.0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double TraceStatistics::mean_same_as_last_token() const { return mean(same_as_last_token); }
double TraceStatistics::mean_next_layer_recall() const {
  return next_layer_recall.empty() ? 0.0 : mean(std::span(next_layer_recall).subspan(1));
}

TraceStatistics trace_statistics(const RoutingTrace& trace) {
  TraceStatistics statistics;
  statistics.same_as_last_token = same_as_last_token(trace);
  const auto answers = answers_of(trace);
  for (const int side_by_side : kSideBySide) {
    if (std::ssize(answers) < side_by_side) continue;
    statistics.distinct_per_step[side_by_side] = distinct_per_step(trace, answers, side_by_side);
    statistics.distinct_by_chance[side_by_side] =
        trace.experts * (1.0 - std::pow(1.0 - static_cast<double>(trace.k) / trace.experts, side_by_side));
  }
  statistics.prompt_and_answer = prompt_and_answer(trace);
  statistics.mass_of_first = mass_of_first(trace);
  statistics.next_layer_recall = next_layer_recall(trace);
  return statistics;
}

}  // namespace moetune
