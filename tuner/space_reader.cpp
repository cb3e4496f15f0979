// From a space file to a SearchSpace: ranges get their numbers, names are looked up, contradictions are
// refused. Start at search_space_from_json(). The written form is checked before, in space_document.h.
#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"
#include "tuner/search_space.h"
#include "tuner/space_document.h"

namespace moetune {
namespace {
constexpr std::int64_t longest_range = 1024;
constexpr std::int64_t max_space_file_bytes = std::int64_t{4} << 20;

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The knob's own message, after the place in the file. An unknown knob is said once, not for each of its
// values.
void check_known(const KnownParameter& known, const std::string& name, const SpaceDocument::Value& value,
                 std::string& said) {
  try {
    known(name, value.text);
  } catch (const InputError& error) {
    if (said == error.what()) return;
    said = error.what();
    refuse(value.place, said, "");
  }
}

std::int64_t number_of(const std::string& end, const SpaceSymbols& symbols, const std::string& place) {
  std::int64_t number = 0;
  if (std::from_chars(end.data(), end.data() + end.size(), number).ec == std::errc()) return number;
  const auto symbol = symbols.find(end);
  if (symbol != symbols.end()) return symbol->second;
  std::string accepted = "a whole number";
  for (const auto& [name, value] : symbols) accepted += ", " + name;
  throw InputError(place, "nothing here is called '" + end + "'", accepted);
}

std::vector<SpaceDocument::Value> values_of_range(const std::string& text, const SpaceSymbols& symbols,
                                                  const std::string& place) {
  const ValueRange range = parse_value_range(text, place);
  const std::int64_t first = number_of(range.first, symbols, place);
  const std::int64_t last = number_of(range.last, symbols, place);
  const std::string meaning =
      range.first + " = " + std::to_string(first) + ", " + range.last + " = " + std::to_string(last);
  if (first > last)
    throw InputError(place, shown(text) + " is empty here: " + meaning,
                     "a range that does not run backwards");
  if (range.doubling && first < 1)
    throw InputError(place, shown(text) + ": " + meaning, "doubling from 1 or more");
  if (!range.doubling && last - first >= longest_range)
    throw InputError(place, shown(text) + " is too long: " + meaning,
                     "at most " + std::to_string(longest_range) + " values");

  std::vector<SpaceDocument::Value> values;
  const auto add = [&](std::int64_t value) { values.push_back({std::to_string(value), place}); };
  for (std::int64_t value = first; value < last;) {
    add(value);
    if (range.doubling && value > std::numeric_limits<std::int64_t>::max() / 2) break;
    value += range.doubling ? value : 1;
  }
  add(last);  // also when doubling would step over it
  return values;
}

// In an ordinal parameter neighbours must be neighbours: numbers out of order are a slip of the pen.
void check_order(const Parameter& parameter, const std::string& place) {
  if (parameter.kind != Parameter::Kind::ordinal || parameter.values.size() < 3) return;
  std::vector<double> numbers;
  for (const std::string& value : parameter.values) {
    const nlohmann::json number = scalar_json(value);
    if (!number.is_number()) return;  // names are in whatever order the file says
    numbers.push_back(number.get<double>());
  }
  if (!std::is_sorted(numbers.begin(), numbers.end()) && !std::is_sorted(numbers.rbegin(), numbers.rend()))
    refuse(place, joined(parameter.values) + " is neither rising nor falling",
           "an ordinal parameter in order");
}

Parameter read_parameter(const SpaceDocument::ParameterText& text, const KnownParameter& known,
                         const SpaceSymbols& symbols) {
  Parameter parameter;
  parameter.name = text.name;
  parameter.kind = text.kind;
  std::vector<SpaceDocument::Value> values = text.values;
  if (!text.range.empty() && !is_noted(text.place + ".values"))
    attempt([&] { values = values_of_range(text.range, symbols, text.place + ".values"); });
  std::string said;
  for (const SpaceDocument::Value& value : values) {
    if (contains(parameter.values, value.text)) {
      refuse(value.place, value.text + " is there twice", "every value once");
      continue;
    }
    if (!is_noted(text.place + ".name")) check_known(known, text.name, value, said);
    parameter.values.push_back(value.text);
  }
  check_order(parameter, text.place + ".values");
  return parameter;
}

// declared: the parameters that may be looked at. ranged: those whose values depend on the model, where a
// condition may name a value that is not there today.
std::vector<Condition> read_conditions(const std::vector<SpaceDocument::ConditionText>& texts,
                                       const std::vector<Parameter>& declared,
                                       const std::vector<std::string>& ranged, const KnownParameter& known,
                                       const std::string& kind_of_parameter) {
  std::vector<Condition> conditions;
  for (const SpaceDocument::ConditionText& text : texts) {
    const auto parameter = std::find_if(declared.begin(), declared.end(), [&](const Parameter& candidate) {
      return candidate.name == text.parameter;
    });
    if (parameter == declared.end()) {
      std::vector<std::string> names;
      names.reserve(declared.size());
      for (const Parameter& candidate : declared) names.push_back(candidate.name);
      refuse(text.place, "'" + text.parameter + "' is not " + kind_of_parameter,
             names.empty() ? "none" : joined(names));
      continue;
    }
    Condition condition{text.parameter, {}};
    std::string said;
    for (const SpaceDocument::Value& value : text.any_of) {
      if (!contains(ranged, text.parameter) && !contains(parameter->values, value.text)) {
        refuse(value.place, value.text + " is not a value of " + text.parameter + " in this space",
               joined(parameter->values));
        continue;
      }
      check_known(known, text.parameter, value, said);
      condition.any_of.push_back(value.text);
    }
    conditions.push_back(std::move(condition));
  }
  return conditions;
}

void check_declared_size(const SearchSpace& space, const std::string& where) {
  std::uint64_t size = 1;
  for (const Parameter& parameter : space.parameters) {
    const std::uint64_t count =
        std::max<std::size_t>(1, parameter.values.size());  // 0: only after a problem was noted
    if (size > (std::uint64_t{1} << 62) / count)
      throw InputError(where, "more than 2^62 configurations", "fewer parameters or fewer values");
    size *= count;
  }
}
}  // namespace

SearchSpace search_space_from_json(const nlohmann::json& document, const std::string& where,
                                   const KnownParameter& known_parameter, const SpaceSymbols& symbols) {
  const SpaceDocument text = read_space_document(document, where);
  SearchSpace space;
  space.name = text.name;
  std::vector<std::string> ranged;
  for (const SpaceDocument::ParameterText& parameter_text : text.parameters) {
    for (const Parameter& earlier : space.parameters)
      if (earlier.name == parameter_text.name)
        refuse(parameter_text.place + ".name", "'" + earlier.name + "' is there twice",
               "every parameter once");
    Parameter parameter = read_parameter(parameter_text, known_parameter, symbols);
    parameter.active_if = read_conditions(parameter_text.active_if, space.parameters, ranged, known_parameter,
                                          "an earlier parameter");
    if (!parameter.active_if.empty() && !parameter.values.empty()) {
      const SpaceDocument::Value& given = parameter_text.when_inactive;
      parameter.when_inactive = given.text.empty() ? parameter.values.front() : given.text;
      if (!contains(parameter.values, parameter.when_inactive))
        refuse(given.place, given.text + " is not a value of " + parameter.name + " in this space",
               joined(parameter.values));
    }
    space.parameters.push_back(std::move(parameter));
    if (!parameter_text.range.empty()) ranged.push_back(parameter_text.name);
  }
  for (const SpaceDocument::ConstraintText& constraint : text.constraints)
    space.constraints.push_back({read_conditions(constraint.forbidden, space.parameters, ranged,
                                                 known_parameter, "a parameter of this space"),
                                 constraint.reason});
  check_declared_size(space, where);
  return space;
}

SearchSpace load_search_space(const std::string& file, const KnownParameter& known_parameter,
                              const SpaceSymbols& symbols) {
  return search_space_from_json(read_json_file(file, max_space_file_bytes), file, known_parameter, symbols);
}

}  // namespace moetune
