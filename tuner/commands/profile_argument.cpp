#include "tuner/commands/profile_argument.h"

#include <algorithm>
#include <filesystem>

#include "engine/checkpoint.h"
#include "engine/data_files.h"
#include "engine/engine.h"
#include "engine/facts/error.h"
#include "engine/presets.h"
#include "tuner/commands/run_paths.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

ModelSpec spec_named(const std::string& model) {
  return names_preset(model) ? open_preset(model).spec : open_checkpoint(model)->spec();
}

}  // namespace

std::string profile_file(const std::string& argument) {
  const std::string path = argument.empty() ? latest_run() : argument;
  std::error_code ignored;  // unreadable counts as absent
  if (fs::is_directory(path, ignored)) {
    const std::string file = path + "/profile.json";
    if (!fs::exists(file, ignored))
      throw InputError(printable(path), "no profile.json in it", "a run that ended with a recommendation");
    return file;
  }
  if (fs::exists(path, ignored)) return path;
  const std::string registered = profiles_folder() + "/" + path + ".json";
  if (!profiles_folder().empty() && path.find("..") == std::string::npos && fs::exists(registered, ignored))
    return registered;
  throw InputError(printable(path), "no such profile",
                   "a profile.json, a run directory or a name of 'moetune list profiles'");
}

std::optional<ModelSpec> model_of_profile(const LaunchProfile& profile, const std::string& model_option) {
  if (!model_option.empty()) {
    ModelSpec spec = spec_named(model_option);
    if (!profile.model_hash.empty() && !spec.content_hash.empty() && spec.content_hash != profile.model_hash)
      throw InputError("--model",
                       "'" + printable(model_option) + "' has the hash " + spec.content_hash +
                           ", the profile is of " + profile.model_hash,
                       "the model that was tuned");
    return spec;
  }
  const std::vector<std::string> embedded = model_names();
  const bool is_embedded = std::ranges::find(embedded, profile.model) != embedded.end();
  if (!is_embedded && !names_preset(profile.model)) return std::nullopt;
  try {
    ModelSpec spec = spec_named(profile.model);
    if (spec.content_hash == profile.model_hash) return spec;
  } catch (const InputError&) {  // a preset of another build: as good as unknown
  }
  return std::nullopt;
}

}  // namespace moetune
