// Reads a preset's "routing" object: engine/facts/synthetic_routing.h.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/facts/synthetic_routing.h"

namespace moetune {

// where: of the object, for messages. Throws InputError naming the field.
SyntheticRouting read_synthetic_routing(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
