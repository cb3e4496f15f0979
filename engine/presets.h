// Presets: models with published geometry and generated weights. `deepseek-v3`, or with overrides that vary
// one thing at a time: `deepseek-v3:experts=128,shared=1,top_k=4`. Their files: engine/models/presets/*.json.
// Start at open_preset().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/facts/model_spec.h"

namespace moetune {

struct Preset {
  ModelSpec spec;          // name: the preset with the overrides that change it, in a fixed order
  std::string source;      // where the geometry was published
  std::uint64_t seed = 1;  // of the weights
};

// Names of the files, sorted.
std::vector<std::string> preset_names();

// Is this the name of a preset, with or without overrides? A folder of that name is a checkpoint instead.
bool names_preset(const std::string& model);

// Throws InputError naming override, value and what is accepted.
Preset open_preset(const std::string& model);

// The same model with another fold: what open_preset() takes.
std::string with_fold(const std::string& model, int fold);

}  // namespace moetune
