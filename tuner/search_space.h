// What may vary: parameters with their values, and constraints. Read from search_spaces/*.json (schema beside them).
// The space is enumerable: configuration number i is the mixed-radix rank over the declared values, so numbers do not
// move when constraints change. Start at load_search_space().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/configuration.h"

namespace moetune {

struct Parameter {
  enum class Kind : std::uint8_t { categorical, ordinal };  // ordinal: neighbours in the list are neighbours in effect
  std::string name;
  Kind kind = Kind::categorical;
  std::vector<std::string> values;  // canonical texts, at least one, all different
};

// A combination that must not be proposed: forbidden when every condition holds.
struct Constraint {
  struct Condition {
    std::string parameter;
    std::vector<std::string> any_of;
  };
  std::vector<Condition> forbidden;
  std::string reason;
};

class SearchSpace {
 public:
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Constraint> constraints;

  std::uint64_t declared_size() const;                 // product of the value counts
  Configuration at(std::uint64_t rank) const;          // rank < declared_size()
  std::uint64_t rank_of(const Configuration&) const;   // throws std::out_of_range for a value that is not declared
  // Why the space's own constraints forbid it; empty: they do not.
  std::optional<std::string> objection(const Configuration&) const;
  std::string hash() const;                            // of parameters, values and constraints; hex
};

// Reads and checks a space file. known_parameter(name, value) must throw InputError for an unknown knob or value.
SearchSpace load_search_space(const std::string& file,
                              const std::function<void(const std::string& name, const std::string& value)>& known_parameter);
SearchSpace search_space_from_json(const nlohmann::json& document, const std::string& where,
                                   const std::function<void(const std::string&, const std::string&)>& known_parameter);

// The ranks that neither the space nor the given check objects to, ascending. At most 2^20 are enumerated; throws
// InputError when the declared space is larger, NoFeasibleConfiguration (naming the first objections) when none is left.
struct LegalSet {
  std::vector<std::uint64_t> ranks;
  std::uint64_t declared = 0;
  // Distinct objections and how many configurations each removed: reported, never silent.
  std::vector<std::pair<std::string, std::uint64_t>> removed;
};
LegalSet legal_configurations(const SearchSpace& space,
                              const std::function<std::optional<std::string>(const Configuration&)>& objection);

}  // namespace moetune
