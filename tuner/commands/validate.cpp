// moetune validate: is this space, profile or run what its schema says?
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/report/run_report.h"
#include "tuner/search_space.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

struct ValidateOptions {
  Console console;
  std::string path;
};

void check_knob(const std::string& name, const std::string& value) {
  EngineOptions ignored;
  set_knob(ignored, name, value);
}

// What it is, in words; throws InputError for the first thing that is wrong.
std::string validated(const std::string& path) {
  if (!fs::exists(path)) throw InputError(path, "no such file", "a space, a profile, a trial log or a run directory");
  if (fs::is_directory(path)) {
    const RunReport report = read_run(path);
    hardware_from_json(report.hardware, path + "/hardware.json");
    if (fs::exists(path + "/profile.json")) load_launch_profile(path + "/profile.json");
    return "a run of " + std::to_string(report.trials.size()) + " trials" + (report.torn.empty() ? "" : "; " + report.torn);
  }
  if (path.ends_with(".jsonl")) {
    const TrialLogContents log = read_trial_log(path);
    return "a log of " + std::to_string(log.trials.size()) + " trials" +
           (log.measured_again.empty() ? "" : " and " + std::to_string(log.measured_again.size()) + " turns of final rounds") + (log.torn.empty() ? "" : "; " + log.torn);
  }
  const nlohmann::json document = read_json_file(path);
  if (document.is_object() && document.contains("parameters")) {
    // Numbers that a model or machine gives are not known here; the largest that any could have stand in.
    const SearchSpace space = search_space_from_json(document, path, check_knob, {{"native", 64}, {"cores", 256}});
    return "a search space of " + std::to_string(space.parameters.size()) + " parameters";
  }
  if (document.is_object() && document.contains("schema")) {
    const LaunchProfile profile = launch_profile_from_json(document, path);
    return "a launch profile for " + profile.model + ", workload " + profile.workload.name;
  }
  if (document.is_object() && document.contains("prompt_tokens")) {
    return "a workload, " + workload_from_json(document, path).name;
  }
  throw InputError(path, "no field says what it is", "a space (parameters), a profile (schema) or a workload (prompt_tokens)");
}

ExitCode run_validate(const ValidateOptions& options) {
  const std::string what = validated(options.path);
  options.console.result(options.path + ": OK, " + what);
  options.console.document({{"file", options.path}, {"valid", true}, {"what", what}});
  return ExitCode::done;
}

}  // namespace

Command add_validate_command(CLI::App& program) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = program.add_subcommand("validate", "Check a space, profile, trial log or run against its schema");
  command->add_option("FILE", options->path, "File or run directory")->type_name("PATH")->required();
  add_output_options(*command, options->console);
  command->footer("Says OK and what it is, or names file, field, value and what is accepted (exit code 2).");
  return {command, [options] { return run_validate(*options); }};
}

}  // namespace moetune
