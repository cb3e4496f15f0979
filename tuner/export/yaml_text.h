// JSON as YAML in block style, by yaml-cpp. Texts are always in double quotes: none is ever taken for a
// number, a date or "no".
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace moetune {

// comments: lines in front, each made one printable line. Ends with a line end.
std::string yaml_text(const nlohmann::ordered_json& document, const std::vector<std::string>& comments);

}  // namespace moetune
