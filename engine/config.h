// config.json of a checkpoint -> ModelSpec. Layouts: DeepseekV3ForCausalLM, MixtralForCausalLM,
// Qwen3MoeForCausalLM.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/model_spec.h"

namespace moetune {

// text: the file's contents; where: its path, for messages. Throws InputError naming the field, its value and
// what is accepted, for anything missing, of the wrong type, out of range or contradictory.
ModelSpec parse_model_config(const std::string& text, const std::string& where);

// The same for a preset's geometry, which may also be of a layout whose checkpoints are not read: DeepseekV2,
// DeepseekV4 (its attention as latent attention), Olmoe, GptOss, Llama.
ModelSpec parse_preset_config(const nlohmann::json& config, const std::string& where);

}  // namespace moetune
