// Checks a document against a JSON Schema (draft 7): spaces, profiles and runs have theirs
// beside them. The readers in this folder check the same and more; this is for `validate` and
// for tests that keep both in step.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace moetune {

// Every violation as "parameters[0].kind: what is wrong", the deepest place first; empty: the document is
// valid. Throws std::runtime_error when the schema itself is broken.
std::vector<std::string> schema_violations(const nlohmann::json& document, const nlohmann::json& schema);

}  // namespace moetune
