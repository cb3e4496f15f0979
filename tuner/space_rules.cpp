#include "tuner/space_rules.h"

#include <algorithm>
#include <optional>

namespace moetune {
namespace {
std::optional<std::size_t> index_of(const std::vector<std::string>& values, const std::string& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found == values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - values.begin());
}
}  // namespace

SpaceRules::SpaceRules(const SearchSpace& space) {
  // Empty when one of them can never hold.
  const auto compiled =
      [&](const std::vector<Condition>& conditions) -> std::optional<std::vector<LevelCondition>> {
    std::vector<LevelCondition> result;
    for (const Condition& condition : conditions) {
      const auto parameter =
          std::find_if(space.parameters.begin(), space.parameters.end(),
                       [&](const Parameter& candidate) { return candidate.name == condition.parameter; });
      if (parameter == space.parameters.end()) return std::nullopt;
      LevelCondition levels{static_cast<std::size_t>(parameter - space.parameters.begin()),
                            std::vector<bool>(parameter->values.size(), false)};
      for (const std::string& value : condition.any_of)
        if (const auto level = index_of(parameter->values, value)) levels.holds[*level] = true;
      if (std::find(levels.holds.begin(), levels.holds.end(), true) == levels.holds.end())
        return std::nullopt;
      result.push_back(std::move(levels));
    }
    return result;
  };

  for (std::size_t p = 0; p < space.parameters.size(); ++p) {
    const Parameter& parameter = space.parameters[p];
    if (parameter.active_if.empty()) continue;
    Activity activity{
        p, {}, static_cast<std::uint16_t>(index_of(parameter.values, parameter.when_inactive).value_or(0))};
    if (auto conditions = compiled(parameter.active_if)) {
      activity.conditions = std::move(*conditions);
    } else {
      activity.conditions = {{p, std::vector<bool>(parameter.values.size(), false)}};  // never active
    }
    activities_.push_back(std::move(activity));
  }
  for (const Constraint& constraint : space.constraints)
    if (auto conditions = compiled(constraint.forbidden))
      forbidden_.push_back({&constraint, std::move(*conditions)});
}

bool SpaceRules::all_hold(const std::vector<LevelCondition>& conditions, const Levels& levels) {
  for (const LevelCondition& condition : conditions)
    if (!condition.holds[levels[condition.parameter]]) return false;
  return true;
}

bool SpaceRules::canonicalize(Levels& levels) const {
  bool changed = false;
  for (const Activity& activity : activities_) {
    std::uint16_t& level = levels[activity.parameter];
    if (level == activity.inactive_level || all_hold(activity.conditions, levels)) continue;
    level = activity.inactive_level;
    changed = true;
  }
  return changed;
}

const Constraint* SpaceRules::violated(const Levels& levels) const {
  for (const Forbidden& forbidden : forbidden_)
    if (all_hold(forbidden.conditions, levels)) return forbidden.constraint;
  return nullptr;
}

}  // namespace moetune
