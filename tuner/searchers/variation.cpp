#include "tuner/searchers/variation.h"

#include <algorithm>

namespace moetune {
namespace {
constexpr double crossover_probability = 0.9;  // as in the paper; otherwise the child starts as its mother
constexpr double step_probability = 0.75;

std::uint16_t crossed(const Parameter& parameter, std::uint16_t mother, std::uint16_t father,
                      RngSequence& random) {
  const bool between = parameter.kind == Parameter::Kind::ordinal && random.below(2) == 0;
  if (!between) return random.below(2) == 0 ? mother : father;
  const auto [low, high] = std::minmax(mother, father);
  return static_cast<std::uint16_t>(low + random.below(static_cast<std::uint64_t>(high - low) + 1));
}

// Precondition: at least two values. Never the same level again.
std::uint16_t mutated(const Parameter& parameter, std::uint16_t level, RngSequence& random) {
  const std::uint64_t count = parameter.values.size();
  if (parameter.kind == Parameter::Kind::ordinal && random.uniform() < step_probability) {
    const bool up = level == 0 || (level + 1U < count && random.below(2) == 0);
    return static_cast<std::uint16_t>(up ? level + 1 : level - 1);
  }
  const std::uint64_t other = random.below(count - 1);
  return static_cast<std::uint16_t>(other < level ? other : other + 1);
}
}  // namespace

Levels child_of(const SearchSpace& space, const Levels& mother, const Levels& father, RngSequence& random) {
  Levels child = mother;
  const bool crosses = random.uniform() < crossover_probability;
  const double mutation_probability = 1.0 / static_cast<double>(space.parameters.size());
  for (std::size_t p = 0; p < child.size(); ++p) {
    const Parameter& parameter = space.parameters[p];
    if (parameter.values.size() < 2) continue;
    if (crosses) child[p] = crossed(parameter, mother[p], father[p], random);
    if (random.uniform() < mutation_probability) child[p] = mutated(parameter, child[p], random);
  }
  return child;
}

}  // namespace moetune
