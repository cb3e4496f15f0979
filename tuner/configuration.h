// One value per parameter of a search space. Values are canonical texts ("8", "0.25", "int4", "on"), exactly
// what
// `--set name=value` takes: a configuration means the same in a space file, a trial log and on a command
// line.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace moetune {

struct Configuration {
  std::map<std::string, std::string> values;  // sorted by name: equal configurations compare and print equal

  // "expert_cache=0.5 expert_quant=int8 top_k=7": identifies the configuration in messages and maps.
  std::string key() const;

  friend bool operator==(const Configuration&, const Configuration&) = default;
  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

// JSON object; a text that is a JSON number is written as a number. The reverse throws
// InputError (where names the place).
nlohmann::json to_json_value(const Configuration& configuration);
Configuration configuration_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
