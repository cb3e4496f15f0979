// The config.json of a golden checkpoint, to be changed and read.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/config.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"

namespace moetune {

using Json = nlohmann::json;

inline Json config_of(const std::string& golden) {
  return Json::parse(read_bytes(source_dir() + "/tests/golden/" + golden + "/config.json"));
}

inline ModelSpec parse(const Json& config) { return parse_model_config(config.dump(), "m/config.json"); }

}  // namespace moetune
