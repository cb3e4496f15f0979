#include "engine/config_fields.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/strict_json.h"

namespace moetune {

ConfigFields::ConfigFields(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) throw InputError(where_, "is " + shown(object_), "a JSON object");
}

bool ConfigFields::has(const std::string& name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json& ConfigFields::at(const std::string& name) const { return object_.at(name); }

void ConfigFields::refuse(const std::string& name, const std::string& found,
                          const std::string& accepted) const {
  throw InputError(where_ + ": " + name, found, accepted);
}

int ConfigFields::integer(const std::string& name, int smallest, int largest) const {
  const std::string accepted = fmt::format("an integer from {} to {}", smallest, largest);
  if (!has(name)) refuse(name, "missing", accepted);
  const nlohmann::json& value = at(name);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT32_MAX) &&
                    value.get<std::int64_t>() >= smallest && value.get<std::int64_t>() <= largest;
  if (!fits) refuse(name, shown(value), accepted);
  return value.get<int>();
}

double ConfigFields::number(const std::string& name, double smallest, double largest) const {
  const std::string accepted = fmt::format("a number from {} to {}", smallest, largest);
  if (!has(name)) refuse(name, "missing", accepted);
  const nlohmann::json& value = at(name);
  if (!value.is_number()) refuse(name, shown(value), accepted);
  const auto number = value.get<double>();
  if (number < smallest || number > largest) refuse(name, shown(value), accepted);
  return number;
}

std::string ConfigFields::text(const std::string& name) const {
  if (!has(name)) refuse(name, "missing", "a string");
  const nlohmann::json& value = at(name);
  if (!value.is_string()) refuse(name, shown(value), "a string");
  return value.get<std::string>();
}

int ConfigFields::integer_or(const std::string& name, int absent, int smallest, int largest) const {
  return has(name) ? integer(name, smallest, largest) : absent;
}

double ConfigFields::number_or(const std::string& name, double absent, double smallest,
                               double largest) const {
  return has(name) ? number(name, smallest, largest) : absent;
}

bool ConfigFields::flag_or(const std::string& name, bool absent) const {
  if (!has(name)) return absent;
  const nlohmann::json& value = at(name);
  if (!value.is_boolean()) refuse(name, shown(value), "true or false");
  return value.get<bool>();
}

std::string ConfigFields::spelling(std::initializer_list<const char*> names) const {
  std::string chosen;
  for (const char* name : names) {
    if (!has(name)) continue;
    if (!chosen.empty() && at(chosen) != at(name)) {
      refuse(name, fmt::format("{}, but {} is {}", shown(at(name)), chosen, shown(at(chosen))),
             "one of them, or equal values");
    }
    if (chosen.empty()) chosen = name;
  }
  return chosen.empty() ? *names.begin() : chosen;
}

void ConfigFields::accept_only(const std::string& name, const nlohmann::json& value,
                               const std::string& why) const {
  if (has(name) && at(name) != value)
    refuse(name, shown(at(name)), shown(value) + (why.empty() ? "" : "; " + why));
}

}  // namespace moetune
