#include "tuner/searchers/search_table.h"

#include <algorithm>
#include <limits>

namespace moetune {

SearchTable::SearchTable(const SearcherInput& input)
    : space_(input.space),
      legal_(input.legal),
      rules_(input.space),
      open_(input.legal.ranks.size(), true),
      open_count_(input.legal.ranks.size()) {}

void SearchTable::take(std::size_t position) {
  if (open_[position]) --open_count_;
  open_[position] = false;
}

std::optional<std::size_t> SearchTable::position_of(std::uint64_t rank) const {
  const auto found = std::lower_bound(legal_.ranks.begin(), legal_.ranks.end(), rank);
  if (found == legal_.ranks.end() || *found != rank) return std::nullopt;
  return static_cast<std::size_t>(found - legal_.ranks.begin());
}

std::optional<std::size_t> SearchTable::find(Levels levels) const {
  rules_.canonicalize(levels);
  return position_of(space_.rank_of(levels));
}

std::optional<std::size_t> SearchTable::find(const Configuration& configuration) const {
  const auto rank = space_.find(configuration);
  if (!rank) return std::nullopt;
  return position_of(*rank);
}

std::size_t SearchTable::open_position(std::size_t n) const {
  std::size_t position = 0;
  while (!open_[position] || n-- > 0) ++position;
  return position;
}

std::size_t SearchTable::nearest_open(const Levels& levels) const {
  // cost[p][level]: distance of that level of parameter p from the wanted one.
  std::vector<std::vector<double>> cost(levels.size());
  for (std::size_t p = 0; p < levels.size(); ++p) {
    const Parameter& parameter = space_.parameters[p];
    for (std::size_t level = 0; level < parameter.values.size(); ++level) {
      const auto steps = static_cast<double>(level > levels[p] ? level - levels[p] : levels[p] - level);
      const bool is_ordinal = parameter.kind == Parameter::Kind::ordinal;
      cost[p].push_back(steps == 0.0 ? 0.0
                        : is_ordinal ? steps / static_cast<double>(parameter.values.size() - 1)
                                     : 1.0);
    }
  }
  std::size_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::size_t position = 0; position < size(); ++position) {
    if (!open_[position]) continue;
    double distance = 0.0;
    std::uint64_t rest = legal_.ranks[position];
    for (std::size_t p = levels.size(); p-- > 0 && distance < best_distance;) {
      distance += cost[p][rest % cost[p].size()];
      rest /= cost[p].size();
    }
    if (distance < best_distance) {
      best = position;
      best_distance = distance;
    }
  }
  return best;
}

std::vector<std::vector<std::uint16_t>> SearchTable::occurring_levels() const {
  std::vector<std::vector<bool>> occurs;
  for (const Parameter& parameter : space_.parameters) occurs.emplace_back(parameter.values.size(), false);
  for (const std::uint64_t rank : legal_.ranks) {
    std::uint64_t rest = rank;
    for (std::size_t p = occurs.size(); p-- > 0;) {
      occurs[p][rest % occurs[p].size()] = true;
      rest /= occurs[p].size();
    }
  }
  std::vector<std::vector<std::uint16_t>> levels(occurs.size());
  for (std::size_t p = 0; p < occurs.size(); ++p)
    for (std::size_t level = 0; level < occurs[p].size(); ++level)
      if (occurs[p][level]) levels[p].push_back(static_cast<std::uint16_t>(level));
  return levels;
}

}  // namespace moetune
