#include "tuner/commands/baseline.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/commands/profile_argument.h"
#include "tuner/commands/study_space.h"
#include "tuner/launch_profile.h"
#include "tuner/report/escape.h"

namespace moetune {

namespace fs = std::filesystem;

Baseline read_baseline(const std::string& path, const std::string& model) {
  const std::string accepted = fmt::format(
      "a profile, the run directory it lies in, or a name of 'moetune list profiles'; 'moetune tune{} --run "
      "runs/baseline' makes one",
      model.empty() ? "" : " --model " + shell_word(model));
  if (path.empty()) throw InputError("--baseline", "no profile is given", accepted);
  std::string file = fs::is_directory(path) ? path + "/profile.json" : path;
  if (!fs::exists(file)) {
    try {
      file = profile_file(path);  // a name in the registry
    } catch (const InputError&) {
      throw InputError("--baseline", "'" + file + "' is not there", accepted);
    }
  }
  return {.profile = load_launch_profile(file), .file = file};
}

Configuration standard_of(const Baseline& baseline, const Study& study) {
  if (baseline.profile.default_point) return {baseline.profile.default_point->configuration};
  return configuration_from_settings(study, {});
}

std::vector<CheckedConfiguration> checked_configurations(const Baseline& baseline, const Study& study) {
  const LaunchProfile& profile = baseline.profile;
  std::vector<CheckedConfiguration> checked;
  const auto add = [&](NightlyRole role, const Configuration& configuration, const ProfilePoint& point) {
    const bool is_there =
        std::ranges::find(checked, configuration, &CheckedConfiguration::configuration) != checked.end();
    if (!is_there) checked.push_back({role, configuration, metrics_of(point), point.rounds});
  };
  add(NightlyRole::baseline, {profile.recommended.configuration}, profile.recommended);
  add(NightlyRole::standard, standard_of(baseline, study), profile.default_point.value_or(ProfilePoint()));
  if (profile.runner_up) add(NightlyRole::runner_up, {profile.runner_up->configuration}, *profile.runner_up);
  for (const ProfilePoint& point : profile.front) {
    if (checked.size() > 1) break;
    add(NightlyRole::runner_up, {point.configuration}, point);
  }
  return checked;
}

std::vector<Configuration> front_of(const LaunchProfile& profile) {
  std::vector<Configuration> configurations;
  for (const ProfilePoint& point : profile.front) configurations.push_back({point.configuration});
  return configurations;
}

}  // namespace moetune
