#include "tuner/space_document.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

// Limits against absurd files; the schema has the same ones.
constexpr std::size_t max_parameters = 64;
constexpr std::size_t max_values = 1024;
constexpr std::size_t max_constraints = 256;
constexpr std::size_t max_name = 64;
constexpr std::size_t max_text = 1000;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_identifier(const std::string& text) {  // ^[a-z][a-z0-9_]{0,63}$
  return !text.empty() && text.size() <= max_name && is_lower(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

bool is_file_name(const std::string& text) {  // ^[a-z0-9][a-z0-9_-]{0,63}$
  return !text.empty() && text.size() <= max_name && (is_lower(text[0]) || is_digit(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower(c) || is_digit(c) || c == '_' || c == '-'; });
}

bool is_value_text(const std::string& text) {  // ^[A-Za-z0-9_.:+-]{1,64}$
  return !text.empty() && text.size() <= max_name && std::all_of(text.begin(), text.end(), [](char c) {
    return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == ':' ||
           c == '+' || c == '-';
  });
}

bool is_range_end(const std::string& text) {  // ^([0-9]{1,6}|[a-z][a-z0-9_]{0,63})$
  return is_identifier(text) ||
         (!text.empty() && text.size() <= 6 && std::all_of(text.begin(), text.end(), is_digit));
}

std::string item(const std::string& place, std::size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

// Of UTF-8, as JSON Schema counts them.
std::size_t character_count(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void check_size(std::size_t size, std::size_t lowest, std::size_t highest, const std::string& place,
                const std::string& what) {
  if (size < lowest || size > highest)
    refuse(place, std::to_string(size) + " " + what,
           std::to_string(lowest) + " to " + std::to_string(highest) + " " + what);
}

SpaceDocument::Value read_value(const json& value, const std::string& place) {
  if (value.is_string() && !is_value_text(value.get<std::string>()))
    throw InputError(place, shown(value), "1 to 64 letters, digits and _ . : + -");
  const std::string text = scalar_text(value, place);
  // "0.50" and 0.5 are one value; without this they would be two configurations that measure the same.
  return {value.is_string() ? canonical_number(text) : text, place};
}

std::vector<SpaceDocument::Value> read_values(const json& list, const std::string& place) {
  check_size(list.size(), 1, max_values, place, "values");
  std::vector<SpaceDocument::Value> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t earlier = 0; earlier < i; ++earlier)
      if (list[earlier] == list[i])
        refuse(item(place, i), shown(list[i]) + " is there twice", "every value once");
    attempt([&] { values.push_back(read_value(list[i], item(place, i))); });
  }
  return values;
}

std::vector<SpaceDocument::ConditionText> read_conditions(const json& object, const std::string& place) {
  const JsonFields fields(object, place);
  check_size(object.size(), 1, max_parameters, place, "conditions");
  std::vector<SpaceDocument::ConditionText> conditions;
  for (const auto& [name, list] : object.items()) {
    if (!is_identifier(name))
      refuse(place, "field " + shown(name), "the name of a parameter", fields.place(name));
    conditions.push_back({name, read_values(fields.array(name), fields.place(name)), fields.place(name)});
  }
  return conditions;
}

SpaceDocument::ParameterText read_parameter(const json& object, const std::string& place) {
  const JsonFields fields(object, place);
  fields.only({"name", "kind", "values", "active_if", "when_inactive", "description"});
  SpaceDocument::ParameterText parameter;
  parameter.place = place;
  parameter.name = fields.text("name");
  if (!is_identifier(parameter.name))
    refuse(fields.place("name"), shown(parameter.name), "the name of a knob");
  const std::string kind = fields.text("kind");
  if (kind != "categorical" && kind != "ordinal")
    refuse(fields.place("kind"), shown(kind), "categorical, ordinal");
  parameter.kind = kind == "ordinal" ? Parameter::Kind::ordinal : Parameter::Kind::categorical;

  const json& values = fields.required("values");
  if (values.is_string()) {
    parameter.range = values.get<std::string>();
    attempt([&] { parse_value_range(parameter.range, fields.place("values")); });
  } else if (values.is_array()) {
    parameter.values = read_values(values, fields.place("values"));
  } else {
    refuse(fields.place("values"), shown(values), "a list of values, or a range such as \"1..native\"");
  }

  if (object.contains("active_if"))
    parameter.active_if = read_conditions(fields.required("active_if"), fields.place("active_if"));
  if (object.contains("when_inactive")) {
    if (!object.contains("active_if"))
      refuse(place, "'when_inactive' without 'active_if'", "both, or neither", fields.place("when_inactive"));
    attempt([&] {
      parameter.when_inactive = read_value(fields.required("when_inactive"), fields.place("when_inactive"));
    });
  }
  check_size(character_count(fields.text_or("description", "")), 0, max_text, fields.place("description"),
             "characters");
  return parameter;
}

SpaceDocument::ConstraintText read_constraint(const json& object, const std::string& place) {
  const JsonFields fields(object, place);
  fields.only({"forbid", "reason"});
  SpaceDocument::ConstraintText constraint;
  constraint.place = place;
  constraint.forbidden = read_conditions(fields.required("forbid"), fields.place("forbid"));
  constraint.reason = fields.text("reason");
  check_size(character_count(constraint.reason), 1, max_text, fields.place("reason"), "characters");
  return constraint;
}
}  // namespace

ValueRange parse_value_range(const std::string& text, const std::string& place) {
  ValueRange range;
  std::string ends = text;
  if (ends.size() > 3 && ends.substr(ends.size() - 3) == " x2") {
    range.doubling = true;
    ends.resize(ends.size() - 3);
  }
  const auto dots = ends.find("..");
  if (dots != std::string::npos) {
    range.first = ends.substr(0, dots);
    range.last = ends.substr(dots + 2);
  }
  if (!is_range_end(range.first) || !is_range_end(range.last))
    throw InputError(place, shown(text),
                     "a list of values, or a range: \"1..8\", \"1..native\", \"1..cores x2\"");
  return range;
}

SpaceDocument read_space_document(const json& document, const std::string& where) {
  const JsonFields fields(document, where);
  fields.only({"$schema", "name", "description", "parameters", "constraints"});
  fields.text_or("$schema", "");
  check_size(character_count(fields.text_or("description", "")), 0, max_text, fields.place("description"),
             "characters");
  SpaceDocument space;
  space.name = fields.text("name");
  if (!is_file_name(space.name))
    refuse(fields.place("name"), shown(space.name), "lower-case letters, digits, _ and -");

  const json& parameters = fields.array("parameters");
  check_size(parameters.size(), 1, max_parameters, fields.place("parameters"), "parameters");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    space.parameters.push_back(read_parameter(parameters[i], item(fields.place("parameters"), i)));

  if (!document.contains("constraints")) return space;
  const json& constraints = fields.array("constraints");
  check_size(constraints.size(), 0, max_constraints, fields.place("constraints"), "constraints");
  for (std::size_t i = 0; i < constraints.size(); ++i)
    space.constraints.push_back(read_constraint(constraints[i], item(fields.place("constraints"), i)));
  return space;
}

}  // namespace moetune
