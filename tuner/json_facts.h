// Facts about machine and workload as JSON: hardware.json, request.json, profiles,
// and what `--workload FILE` reads.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/hardware_fingerprint.h"
#include "engine/facts/workload.h"

namespace moetune {

nlohmann::json to_json_value(const HardwareFingerprint& hardware);
HardwareFingerprint hardware_from_json(const nlohmann::json& object,
                                       const std::string& where);  // throws InputError

nlohmann::json to_json_value(const Workload& workload);
// Fields that are absent keep the defaults of Workload; name, prompt_tokens and output_tokens
// are required. Throws InputError.
Workload workload_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
