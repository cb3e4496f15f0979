#include "tuner/configuration.h"

#include <nlohmann/json.hpp>

#include "tuner/json_fields.h"

namespace moetune {

std::string Configuration::key() const {
  std::string text;
  for (const auto& [name, value] : values)
    text.append(text.empty() ? "" : " ").append(name).append("=").append(value);
  return text;
}

nlohmann::json to_json_value(const Configuration& configuration) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : configuration.values) object[name] = scalar_json(value);
  return object;
}

Configuration configuration_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  Configuration configuration;
  for (const auto& [name, value] : object.items())
    configuration.values[name] = scalar_text(value, fields.place(name));
  return configuration;
}

}  // namespace moetune
