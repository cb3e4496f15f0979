#include "tuner/export/yaml_text.h"

#include <stdexcept>

#include <yaml-cpp/yaml.h>

#include "tuner/printable.h"

namespace moetune {
namespace {

void emit(YAML::Emitter& out, const nlohmann::ordered_json& value) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, part] : value.items()) {
      out << YAML::Key << YAML::DoubleQuoted << key << YAML::Value;
      emit(out, part);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const nlohmann::ordered_json& part : value) emit(out, part);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    out << YAML::DoubleQuoted << value.get<std::string>();
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();  // numbers and booleans are written alike in both
  }
}

}  // namespace

std::string yaml_text(const nlohmann::ordered_json& document, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& comment : comments) text += "# " + printable(comment) + "\n";
  YAML::Emitter out;
  emit(out, document);
  if (!out.good()) throw std::logic_error("YAML: " + out.GetLastError());
  return text + out.c_str() + "\n";
}

}  // namespace moetune
