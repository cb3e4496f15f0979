// What a PROFILE on the command line means: a file, a run directory, a name in the registry, or nothing for
// the newest run.
#pragma once

#include <optional>
#include <string>

#include "engine/facts/launch_profile.h"
#include "engine/facts/model_spec.h"

namespace moetune {

// The file of it. Throws InputError naming what is accepted.
std::string profile_file(const std::string& argument);

// The model that was tuned: model_option where it is not empty (its hash must be the profile's), else the
// profile's own name where that is a preset or an embedded model. Empty: not known here. Throws InputError.
std::optional<ModelSpec> model_of_profile(const LaunchProfile& profile, const std::string& model_option);

}  // namespace moetune
