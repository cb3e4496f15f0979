// Activity and constraints of a search space, compiled from texts to level indices: enumeration asks a
// million times. Start at SpaceRules::canonicalize() and ::violated().
#pragma once

#include <cstddef>
#include <vector>

#include "tuner/search_space.h"

namespace moetune {

class SpaceRules {
 public:
  // The space must outlive the rules. Conditions about parameters or values that the space lacks never hold.
  explicit SpaceRules(const SearchSpace& space);

  // Sets every inactive parameter to its value when_inactive; true when something changed.
  bool canonicalize(Levels& levels) const;
  // The first constraint that forbids these (canonical) levels; nullptr: none does.
  const Constraint* violated(const Levels& levels) const;

 private:
  struct LevelCondition {
    std::size_t parameter = 0;
    std::vector<bool> holds;  // by level
  };
  struct Activity {
    std::size_t parameter = 0;
    std::vector<LevelCondition> conditions;
    std::uint16_t inactive_level = 0;
  };
  struct Forbidden {
    const Constraint* constraint = nullptr;
    std::vector<LevelCondition> conditions;
  };
  static bool all_hold(const std::vector<LevelCondition>& conditions, const Levels& levels);

  std::vector<Activity> activities_;  // in the order of the parameters: each looks only at earlier ones
  std::vector<Forbidden> forbidden_;
};

}  // namespace moetune
