// What may vary: parameters with their values, and constraints. Read from search_spaces/*.json (schema
// beside them). The space is enumerable: configuration number i is the mixed-radix rank over the declared
// values, so numbers do not move when constraints change. Start at load_search_space();
// legal_configurations() is what a searcher works on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/configuration.h"

namespace moetune {

// Holds when the parameter has one of these values.
struct Condition {
  std::string parameter;
  std::vector<std::string> any_of;
};

struct Parameter {
  enum class Kind : std::uint8_t {
    categorical,
    ordinal
  };  // ordinal: neighbours in the list are neighbours in effect
  std::string name;
  Kind kind = Kind::categorical;
  std::vector<std::string> values;  // canonical texts, at least one, all different
  // The parameter matters only while every condition holds (each about an earlier parameter).
  // Otherwise it has the value when_inactive, so that configurations which differ only in what does
  // not matter are one configuration.
  std::vector<Condition> active_if;
  std::string when_inactive;  // one of the values; empty when active_if is
};

// A combination that must not be proposed: forbidden when every condition holds.
struct Constraint {
  using Condition = moetune::Condition;
  std::vector<Condition> forbidden;
  std::string reason;
};

// Index of the value of each parameter, in the order of SearchSpace::parameters.
using Levels = std::vector<std::uint16_t>;

class SearchSpace {
 public:
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Constraint> constraints;

  std::uint64_t declared_size() const;         // product of the value counts
  Configuration at(std::uint64_t rank) const;  // rank < declared_size()
  // Throws std::out_of_range for a value that is not declared, a parameter that
  // is missing or not of this space.
  std::uint64_t rank_of(const Configuration&) const;
  // The same with inactive parameters set to their value when_inactive; empty where rank_of() would throw.
  std::optional<std::uint64_t> find(const Configuration&) const;
  Configuration canonical(
      const Configuration&) const;  // of a configuration of this space; throws as rank_of()
  // Why the space's own constraints forbid it; empty: they do not.
  std::optional<std::string> objection(const Configuration&) const;
  std::string hash() const;  // of parameters, values and constraints; 16 hex digits

  Levels levels_at(std::uint64_t rank) const;
  std::uint64_t rank_of(const Levels&) const;
  Configuration configuration_of(const Levels&) const;
};

// Throws InputError for an unknown knob or value; knob_named() and set_knob() do.
using KnownParameter = std::function<void(const std::string& name, const std::string& value)>;

// Numbers that only the model or the machine gives, for ranges such as
// "1..native": {"native", 8}, {"cores", 2}.
using SpaceSymbols = std::map<std::string, std::int64_t>;

// Reads and checks a space file. Every InputError names file, field, value and what is accepted.
SearchSpace load_search_space(const std::string& file, const KnownParameter& known_parameter,
                              const SpaceSymbols& symbols = {});
SearchSpace search_space_from_json(const nlohmann::json& document, const std::string& where,
                                   const KnownParameter& known_parameter, const SpaceSymbols& symbols = {});

inline constexpr std::uint64_t largest_enumerated_space = std::uint64_t{1} << 20;
inline constexpr std::uint64_t sampled_draws = std::uint64_t{1} << 17;

// The ranks that neither the space nor the given check objects to, ascending, each configuration once
// (inactive parameters at their canonical value). A space that declares more than 2^20 configurations is
// sampled instead of enumerated: 2^17 draws, always the same for the same space.
struct LegalSet {
  std::vector<std::uint64_t> ranks;
  std::uint64_t declared = 0;  // configurations the space declares
  std::uint64_t examined = 0;  // of those: all, or the draws of a sample; = ranks + merged + removed
  std::uint64_t merged =
      0;  // differ from another one only in a parameter that is not active, or were drawn twice
  bool sampled = false;  // ranks are a sample: a report must say so
  // Distinct objections and how many configurations each removed, most first: reported, never silent.
  std::vector<std::pair<std::string, std::uint64_t>> removed;
};
// Throws NoFeasibleConfiguration (naming the first objections) when none is left.
LegalSet legal_configurations(
    const SearchSpace& space,
    const std::function<std::optional<std::string>(const Configuration&)>& objection);

// How many configurations are in the set or this one: the default need not be a value of the space, but
// mostly is, and is not tried twice.
std::int64_t count_with(const LegalSet& legal, const SearchSpace& space, const Configuration& one);

}  // namespace moetune
