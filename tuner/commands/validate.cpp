// moetune validate: is this space, profile or run what its schema says?
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"
#include "tuner/accuracy_gate.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/conclusion.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/objective.h"
#include "tuner/problems.h"
#include "tuner/run_directory.h"
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

// Names are looked up by functions that speak of the flag they usually come from.
template <class LookUp>
void look_up(const std::string& place, LookUp look_up) {
  try {
    look_up();
  } catch (const InputError& error) {
    refuse(place, error.what(), "");
  }
}

std::string words_of(const TrialLogContents& log) {
  const std::size_t turns = log.measured_again.size();
  return std::to_string(log.trials.size()) + " trials" +
         (turns == 0 ? "" : " and " + std::to_string(turns) + " turns of final rounds") + (log.torn.empty() ? "" : "; " + log.torn);
}

// What was drawn from the trials must still be about them: a point is a trial of the log with its configuration.
void check_front(const std::string& file, const TrialLogContents& log) {
  const nlohmann::json document = read_json_file(file);
  const JsonFields fields(document, file);
  fields.integer("schema", 1, 1);
  for (const char* text : {"model", "model_hash", "workload", "gate", "reason"}) fields.text(text);
  std::size_t place = 0;
  for (const nlohmann::json& point : fields.array("points")) {
    const std::string where = file + ": points[" + std::to_string(place++) + "]";
    attempt([&] {
      const JsonFields parts(point, where);
      const std::int64_t number = parts.integer("trial", 0, std::numeric_limits<std::int64_t>::max());
      const Configuration configuration = configuration_from_json(parts.object("configuration"), parts.place("configuration"));
      metrics_from_json(parts.object("metrics"), parts.place("metrics"));
      const auto trial = std::ranges::find(log.trials, number, &Trial::number);
      if (trial == log.trials.end()) return refuse(parts.place("trial"), std::to_string(number), "a trial of trials.jsonl");
      if (trial->configuration != configuration)
        refuse(parts.place("configuration"), configuration.key(), "that of trial " + std::to_string(number) + ", " + trial->configuration.key());
    });
  }
}

// Each file by itself: one that is wrong hides nothing of the others.
std::string checked_run(const std::string& path) {
  const std::string request_file = path + "/request.json";
  attempt([&] {
    const RunRequest request = run_request_from_json(read_json_file(request_file), request_file);
    look_up(request_file + ": gate", [&] { gate_named(request.gate); });
    for (const std::string& metric : request.objectives)
      look_up(request_file + ": objectives", [&] { objectives_named(metric); });
    if (!request.slo.empty()) look_up(request_file + ": slo", [&] { parse_slo(request.slo); });
  });
  const std::string hardware_file = path + "/hardware.json";
  attempt([&] { hardware_from_json(read_json_file(hardware_file), hardware_file); });
  TrialLogContents log;
  if (fs::exists(path + "/trials.jsonl")) attempt([&] { log = read_trial_log(path + "/trials.jsonl"); });
  if (fs::exists(path + "/profile.json")) attempt([&] { load_launch_profile(path + "/profile.json"); });
  if (fs::exists(path + "/front.json")) attempt([&] { check_front(path + "/front.json", log); });
  return "a run of " + words_of(log);
}

// What it is, in words; throws InputError where nothing more can be said about it.
std::string checked(const std::string& path) {
  if (!fs::exists(path)) throw InputError(path.empty() ? "''" : path, "no such file", "a space, a profile, a trial log or a run directory");
  if (fs::is_directory(path)) return checked_run(path);
  if (path.ends_with(".jsonl")) return "a log of " + words_of(read_trial_log(path));
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
  if (document.is_object() && document.contains("prompt_tokens"))
    return "a workload, " + workload_from_json(document, path).name;
  throw InputError(path, "no field says what it is", "a space (parameters), a profile (schema) or a workload (prompt_tokens)");
}

ExitCode run_validate(const ValidateOptions& options) {
  const ProblemList problems;
  std::string what;
  attempt([&] { what = checked(options.path); });
  if (!problems.messages().empty()) {
    for (const std::string& message : problems.messages()) options.console.warn("moetune: " + message);
    options.console.document({{"file", options.path}, {"valid", false}, {"problems", problems.messages()}});
    return ExitCode::bad_input;
  }
  options.console.result(options.path + ": OK, " + what);
  options.console.document({{"file", options.path}, {"valid", true}, {"what", what}});
  return ExitCode::done;
}

}  // namespace

Command add_validate_command(CLI::App& program) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App& command = add_subcommand(
      program, "validate", "Check a space, profile, trial log or run against its schema",
      "Says OK and what it is, or names file, field, value and what is accepted for everything that is wrong (exit code 2).");
  required(add_text_option(command, "FILE", options->path, "PATH", "File or run directory"));
  add_output_options(command, options->console);
  return {&command, [options] { return run_validate(*options); }};
}

}  // namespace moetune
