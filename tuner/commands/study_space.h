// Spaces and configurations of a study's model on a study's machine. Start at space_for().
#pragma once

#include <string>
#include <vector>

#include "tuner/commands/study.h"
#include "tuner/search_space.h"

namespace moetune {

// A space by name or file, with ranges such as "1..native" resolved for this model and machine.
SearchSpace space_for(const Study& study, const std::string& name_or_file);
std::vector<std::string> space_names();

// Native top_k, checkpoint number types, the largest expert cache that fits, one rank: for the parameters of
// the space.
Configuration default_configuration(const Study& study, const SearchSpace& space);

inline constexpr auto setting_words = "knob=value, such as top_k=6; 'moetune list knobs' names them";

// What `--set` gives, completed with the defaults of the default space. Throws InputError for unknown knobs
// and values.
Configuration configuration_from_settings(const Study& study, const std::vector<std::string>& settings);

}  // namespace moetune
