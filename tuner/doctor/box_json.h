// BoxFacts as JSON and back: what `doctor --json` prints can be judged on another machine. Unknown facts are
// absent.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tuner/doctor/box_facts.h"
#include "tuner/doctor/findings.h"

namespace moetune {

nlohmann::json to_json_value(const BoxFacts& box);
// Throws InputError for a field that is not known or has the wrong type; fields that are absent keep their
// default.
BoxFacts box_from_json(const nlohmann::json& object, const std::string& where);

// From a file: a box alone, or all of what `doctor --json` prints. Throws InputError.
BoxFacts read_box_file(const std::string& path);

nlohmann::json to_json_value(const Finding& finding);

}  // namespace moetune
