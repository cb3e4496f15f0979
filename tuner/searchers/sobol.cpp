#include "tuner/searchers/sobol.h"

#include <algorithm>

#include "engine/facts/error.h"

namespace moetune {
namespace {
constexpr int most_points_passed_over = 64;

std::size_t varying(const std::vector<std::vector<std::uint16_t>>& levels) {
  return static_cast<std::size_t>(
      std::count_if(levels.begin(), levels.end(), [](const auto& each) { return each.size() > 1; }));
}

std::size_t dimensions_for(const std::vector<std::vector<std::uint16_t>>& levels, const SearchSpace& space) {
  const std::size_t dimensions = varying(levels);
  if (dimensions > SobolSequence::most_dimensions)
    throw InputError("--searcher",
                     "space '" + space.name + "' varies " + std::to_string(dimensions) + " parameters",
                     "at most " + std::to_string(SobolSequence::most_dimensions) + " with sobol and nsga2");
  return std::max<std::size_t>(1, dimensions);
}
}  // namespace

SobolSearcher::SobolSearcher(const SearcherInput& input)
    : table_(input),
      levels_(table_.occurring_levels()),
      sequence_(dimensions_for(levels_, input.space)),
      seed_(input.seed) {}

Levels SobolSearcher::next_levels() {
  Levels levels(levels_.size(), 0);
  std::size_t dimension = 0;
  for (std::size_t p = 0; p < levels_.size(); ++p) {
    const std::vector<std::uint16_t>& choices = levels_[p];
    if (choices.size() == 1) {
      levels[p] = choices[0];
      continue;
    }
    const double coordinate = sequence_.scrambled(next_, dimension++, seed_);
    levels[p] = choices[static_cast<std::size_t>(coordinate * static_cast<double>(choices.size()))];
  }
  ++next_;
  return levels;
}

std::optional<Configuration> SobolSearcher::ask() {
  if (table_.open_count() == 0) return std::nullopt;
  Levels levels;
  for (int passed_over = 0; passed_over < most_points_passed_over; ++passed_over) {
    levels = next_levels();
    const auto position = table_.find(levels);
    if (!position || !table_.is_open(*position)) continue;
    table_.take(*position);
    return table_.configuration(*position);
  }
  const std::size_t position = table_.nearest_open(levels);
  table_.take(position);
  return table_.configuration(position);
}

void SobolSearcher::tell(const Trial& trial) {
  if (const auto position = table_.find(trial.configuration)) table_.take(*position);
}

}  // namespace moetune
