#include "tuner/commands/study_space.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/data_files.h"
#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study_memory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr auto space_suffix = ".json";

KnownParameter knob_table() {
  return [](const std::string& name, const std::string& value) {
    EngineOptions ignored;
    set_knob(ignored, name, value);
  };
}

// A dense model chooses no experts.
bool is_choice(const Study& study, const Knob& knob) {
  return knob.name != "top_k" || study.model.experts_per_token > 0;
}

// The value a knob has when nobody sets it, as a space would write it.
std::string default_value(const Study& study, const Knob& knob) {
  if (knob.name == "top_k") return std::to_string(study.model.experts_per_token);
  EngineOptions options = default_options(study.device);
  if (knob.name == "expert_cache" && !study.made_up) {
    const double share = largest_share(study, options);
    // Nothing fits: the whole cache is asked for, and the objection to it says what is missing.
    if (share > 0.0) options.expert_cache_fraction = share;
  }
  return knob.get(options);
}

}  // namespace

std::vector<std::string> space_names() {
  std::vector<std::string> names;
  const std::string folder = search_spaces_folder();
  if (folder.empty()) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(space_suffix) && !file.ends_with(".schema.json"))
      names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

SearchSpace space_for(const Study& study, const std::string& name_or_file) {
  if (study.model.experts_per_token == 0)
    throw InputError("--model", study.model.name + " has no experts: there is nothing to search",
                     "a mixture of experts; measure takes dense models");
  const SpaceSymbols symbols = {{"native", study.model.experts_per_token},
                                {"cores", std::max(1, study.hardware.cpu_cores)}};
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(space_suffix))
    return load_search_space(name_or_file, knob_table(), symbols);
  const std::vector<std::string> names = space_names();
  if (std::ranges::find(names, name_or_file) == names.end()) {
    std::string accepted;
    for (const std::string& name : names) accepted += name + ", ";
    throw InputError("--space", "no space named '" + name_or_file + "'", accepted + "or a JSON file");
  }
  return load_search_space(search_spaces_folder() + "/" + name_or_file + space_suffix, knob_table(), symbols);
}

Configuration default_configuration(const Study& study, const SearchSpace& space) {
  Configuration configuration;
  for (const Parameter& parameter : space.parameters)
    configuration.values[parameter.name] = default_value(study, knob_named(parameter.name));
  return configuration;
}

Configuration configuration_from_settings(const Study& study, const std::vector<std::string>& settings) {
  Configuration configuration;
  for (const Knob& knob : knobs())
    if (knob.in_default_space && is_choice(study, knob))
      configuration.values[std::string(knob.name)] = default_value(study, knob);
  for (const auto& [name, value] : parse_assignments("--set", settings, setting_words)) {
    EngineOptions options;
    set_knob(options, name, value);
    // Canonical, so that the same choice has one spelling everywhere; "native" is a number for the model at
    // hand.
    const Knob& knob = knob_named(name);
    const bool is_native = knob.name == "top_k" && options.top_k == 0;
    configuration.values[name] =
        is_native ? std::to_string(study.model.experts_per_token) : knob.get(options);
  }
  return configuration;
}

}  // namespace moetune
