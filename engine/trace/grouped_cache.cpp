#include "engine/trace/grouped_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moetune {
namespace {

class Counts {
 public:
  explicit Counts(const RoutingTrace& trace)
      : experts_(static_cast<std::size_t>(trace.experts)),
        together_(static_cast<std::size_t>(trace.layers) * experts_ * experts_, 0) {
    for (std::int64_t token = 0; token < trace.tokens(); ++token)
      for (int layer = 0; layer < trace.layers; ++layer)
        for (const std::int32_t a : trace.ids(token, layer))
          for (const std::int32_t b : trace.ids(token, layer))
            if (a >= 0 && b >= 0) ++together_[at(layer, a, b)];
  }
  // a with itself: how often it was chosen.
  std::int64_t operator()(int layer, std::int32_t a, std::int32_t b) const {
    return together_[at(layer, a, b)];
  }

 private:
  std::size_t at(int layer, std::int32_t a, std::int32_t b) const {
    return (static_cast<std::size_t>(layer) * experts_ + static_cast<std::size_t>(a)) * experts_ +
           static_cast<std::size_t>(b);
  }
  std::size_t experts_;
  std::vector<std::int64_t> together_;
};

std::vector<std::int32_t> groups_of_layer(const Counts& counts, int layer, int experts, int group_size) {
  std::vector<std::int32_t> group(static_cast<std::size_t>(experts), -1);
  std::vector<std::int32_t> left(static_cast<std::size_t>(experts));
  std::iota(left.begin(), left.end(), 0);
  std::ranges::stable_sort(left, std::greater<>(),
                           [&](std::int32_t expert) { return counts(layer, expert, expert); });
  for (std::int32_t number = 0; !left.empty(); ++number) {
    std::vector<std::int32_t> members;
    while (!left.empty() && std::ssize(members) < group_size) {
      const auto closeness = [&](std::int32_t expert) {
        return std::accumulate(
            members.begin(), members.end(), std::int64_t{0},
            [&](std::int64_t sum, std::int32_t member) { return sum + counts(layer, member, expert); });
      };
      const auto next =
          std::ranges::max_element(left, {}, closeness);  // the first of equals: the most used one
      group[static_cast<std::size_t>(*next)] = number;
      members.push_back(*next);
      left.erase(next);
    }
  }
  return group;
}

struct Resident {
  std::int64_t asked_at = 0;
  bool by_decoding = false;     // brought in by a decode step
  std::vector<bool> was_asked;  // by expert
};

// Experts of a group that decoding brought in and nobody asked for.
std::int64_t in_vain(const std::pair<std::int32_t, Resident>& entry,
                     const std::vector<std::int32_t>& group_of) {
  const auto& [group, resident] = entry;
  std::int64_t count = 0;
  if (resident.by_decoding)
    for (std::size_t member = 0; member < group_of.size(); ++member)
      count += group_of[member] == group && !resident.was_asked[member] ? 1 : 0;
  return count;
}

}  // namespace

std::vector<std::vector<std::int32_t>> group_experts(const RoutingTrace& learn_from, int group_size) {
  const Counts counts(learn_from);
  std::vector<std::vector<std::int32_t>> groups;
  for (int layer = 0; layer < learn_from.layers; ++layer)
    groups.push_back(groups_of_layer(counts, layer, learn_from.experts, group_size));
  return groups;
}

GroupedCounts replay_groups(const RoutingTrace& trace, const std::vector<std::vector<std::int32_t>>& groups,
                            int group_size, int slots) {
  const std::size_t room = static_cast<std::size_t>(std::max(slots / trace.layers / group_size, 1));
  std::vector<std::vector<std::pair<std::int32_t, Resident>>> resident(
      static_cast<std::size_t>(trace.layers));
  GroupedCounts counts;
  std::int64_t clock = 0;
  for_each_layer_step(trace, [&](const LayerStep& step) {
    auto& here = resident[static_cast<std::size_t>(step.layer)];
    const std::vector<std::int32_t>& group_of = groups[static_cast<std::size_t>(step.layer)];
    const auto find = [&](std::int32_t group) {
      return std::ranges::find(here, group, [](const auto& entry) { return entry.first; });
    };
    ++clock;
    const std::vector<std::int32_t> asked = distinct_experts(step.ids);
    std::vector<std::int32_t> missing;
    for (const std::int32_t expert : asked) {
      const auto found = find(group_of[static_cast<std::size_t>(expert)]);
      if (step.decodes) ++(found != here.end() ? counts.hits : counts.misses);
      if (found == here.end()) {
        missing.push_back(expert);
        continue;
      }
      found->second.asked_at = clock;
      found->second.was_asked[static_cast<std::size_t>(expert)] = true;
    }
    for (const std::int32_t expert : missing) {
      const std::int32_t group = group_of[static_cast<std::size_t>(expert)];
      auto found = find(group);
      if (found == here.end()) {  // not brought in by another expert of this step
        if (here.size() >= room) {
          const auto oldest =
              std::ranges::min_element(here, {}, [](const auto& entry) { return entry.second.asked_at; });
          counts.loads_in_vain += in_vain(*oldest, group_of);
          here.erase(oldest);
        }
        if (step.decodes) counts.loads += std::ranges::count(group_of, group);
        here.emplace_back(group, Resident{clock, step.decodes, std::vector<bool>(group_of.size(), false)});
        found = here.end() - 1;
      }
      found->second.asked_at = clock;
      found->second.was_asked[static_cast<std::size_t>(expert)] = true;
    }
  });
  for (int layer = 0; layer < trace.layers; ++layer)
    for (const auto& entry : resident[static_cast<std::size_t>(layer)])
      counts.loads_in_vain += in_vain(entry, groups[static_cast<std::size_t>(layer)]);
  return counts;
}

}  // namespace moetune
