// The rotary embedding fields of a config.json in both spellings: rope_theta + rope_scaling (transformers 4
// and the hub) and rope_parameters (transformers 5).
#pragma once

#include "engine/config_fields.h"
#include "engine/facts/model_spec.h"

namespace moetune {

// rotated_dim: elements per head that are rotated. default_theta: transformers' value for this architecture
// when none is given. max_context: YaRN's original context when the file names none. Throws InputError.
RopeSpec read_rope(const ConfigFields& config, int rotated_dim, double default_theta, int max_context);

}  // namespace moetune
