// Why a server rejects a model's name: what it serves under, against what is asked for. Start at
// judge_model_name().
#pragma once

#include <string>
#include <vector>

#include "tuner/doctor/findings.h"

namespace moetune {

// The ids in the answer of an OpenAI-compatible server to GET /v1/models: {"data": [{"id": "..."}, ...]}.
// Throws InputError for anything else; where: the address.
std::vector<std::string> served_models(const std::string& body, const std::string& where);

// model: the name that clients send; empty: only what there is. The finding's id is model_served,
// model_renamed (another spelling of it is served), or model_unknown.
Finding judge_model_name(const std::string& model, const std::vector<std::string>& served,
                         const std::string& url);

}  // namespace moetune
