// moetune validate: is this space, profile or run what its schema says?
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"
#include "engine/trace/trace_file.h"
#include "tuner/accuracy_gate.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/conclusion.h"
#include "tuner/commands/file_kind.h"
#include "tuner/commands/refusal.h"
#include "tuner/counted.h"
#include "tuner/hardware_catalogue.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/nightly_record.h"
#include "tuner/objective.h"
#include "tuner/possible_values.h"
#include "tuner/printable.h"
#include "tuner/problems.h"
#include "tuner/run_directory.h"
#include "tuner/sample_series.h"
#include "tuner/search_space.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr auto accepted_kinds =
    "a space, a profile, a trial log, samples of measure --samples-out, a routing trace of trace --out or a "
    "run directory";

struct ValidateOptions {
  Console console;
  std::string path;
};

void check_knob(const std::string& name, const std::string& value) {
  EngineOptions ignored;
  set_knob(ignored, name, value);
}

TrialLogContents checked_log(const std::string& file) {
  TrialLogContents log = read_trial_log(file);
  for (const std::vector<Trial>* trials : {&log.trials, &log.measured_again, &log.recordings})
    for (const Trial& trial : *trials) {
      const std::string where = fmt::format("{}: trial {}{}: ", file, trial.number,
                                            trial.turn           ? ", measured again"
                                            : trial.is_recording ? ", recorded"
                                                                 : "");
      check_knob_values(trial.configuration.values, where + "configuration");
      check_possible(trial.metrics, where + "metrics");
    }
  return log;
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
  return counted(log.trials.size(), "trial") +
         (turns == 0 ? "" : " and " + counted(turns, "turn") + " of final rounds") +
         (log.recordings.empty() ? "" : " and " + counted(log.recordings.size(), "recording")) +
         (log.torn.empty() ? "" : "; " + log.torn);
}

// What was drawn from the trials must still be about them: a point is a trial of the log with its
// configuration. log: nullptr: it is not at hand.
void check_front(const nlohmann::json& document, const std::string& file, const TrialLogContents* log) {
  const JsonFields fields(document, file);
  fields.integer("schema", 1, 1);
  for (const char* text : {"model", "model_hash", "workload", "gate", "reason"}) fields.text(text);
  std::size_t place = 0;
  for (const nlohmann::json& point : fields.array("points")) {
    const std::string where = file + ": points[" + std::to_string(place++) + "]";
    attempt([&] {
      const JsonFields parts(point, where);
      const std::int64_t number = parts.integer("trial", 0, std::numeric_limits<std::int64_t>::max());
      const Configuration configuration =
          configuration_from_json(parts.object("configuration"), parts.place("configuration"));
      check_knob_values(configuration.values, parts.place("configuration"));
      check_possible(metrics_from_json(parts.object("metrics"), parts.place("metrics")),
                     parts.place("metrics"));
      if (log == nullptr) return;
      const auto trial = std::ranges::find(log->trials, number, &Trial::number);
      if (trial == log->trials.end())
        return refuse(parts.place("trial"), std::to_string(number), "a trial of trials.jsonl");
      if (trial->configuration != configuration)
        refuse(parts.place("configuration"), configuration.key(),
               "that of trial " + std::to_string(number) + ", " + trial->configuration.key());
    });
  }
}

RunRequest checked_request(const nlohmann::json& document, const std::string& file) {
  RunRequest request = run_request_from_json(document, file);
  look_up(file + ": gate", [&] { gate_named(request.gate); });
  for (const std::string& metric : request.objectives)
    look_up(file + ": objectives", [&] { objectives_named(metric); });
  if (!request.slo.empty()) look_up(file + ": slo", [&] { parse_slo(request.slo); });
  attempt([&] {
    const std::string where = file + ": default_configuration";
    check_knob_values(configuration_from_json(request.default_configuration, where).values, where);
  });
  return request;
}

// Each file by itself: one that is wrong hides nothing of the others.
std::string checked_run(const std::string& path) {
  const std::string request_file = path + "/request.json";
  attempt([&] { checked_request(read_json_file(request_file), request_file); });
  const std::string hardware_file = path + "/hardware.json";
  attempt([&] { hardware_from_json(read_json_file(hardware_file), hardware_file); });
  TrialLogContents log;
  if (fs::exists(path + "/trials.jsonl")) attempt([&] { log = checked_log(path + "/trials.jsonl"); });
  const auto check_file = [&](const char* name, const auto& check) {
    const std::string file = path + "/" + name;
    if (fs::exists(file)) attempt([&] { check(read_json_file(file), file); });
  };
  check_file("profile.json", launch_profile_from_json);
  check_file("front.json", [&](const nlohmann::json& document, const std::string& file) {
    check_front(document, file, &log);
  });
  return "a run of " + words_of(log);
}

// A run's front by itself; the run's trials are looked up where they lie beside it.
std::string checked_front(const nlohmann::json& document, const std::string& file) {
  const std::string trials = (fs::path(file).parent_path() / "trials.jsonl").string();
  TrialLogContents log;
  if (fs::exists(trials)) attempt([&] { log = read_trial_log(trials); });
  check_front(document, file, fs::exists(trials) ? &log : nullptr);
  return "the front of a run, " + counted(document["points"].size(), "point");
}

std::string checked_samples(const std::string& path) {
  const SampleSeries series = read_sample_series(path);
  std::size_t runs = 0;
  for (const SampleProcess& process : series.processes) runs += process.runs.size();
  if (runs == 0)
    throw InputError(path, "samples of no run: nothing was measured, or the file was cut short",
                     "samples of measure --samples-out with a run at least");
  return fmt::format("samples of {} in {}", counted(runs, "run"),
                     counted(series.processes.size(), "process", "processes"));
}

std::string checked_trace(const std::string& path) {
  const RoutingTrace trace = read_trace_file(path);
  return fmt::format("a routing trace of {}, {} in {}", trace.model, counted(trace.tokens(), "token"),
                     counted(trace.layers, "layer"));
}

// By itself and not as a part of its run: one line that cannot be read does not show that it is a log at all.
std::string checked_lone_log(const std::string& path) {
  const TrialLogContents log = checked_log(path);
  if (log.intact_bytes == 0 && !log.torn.empty())
    throw InputError(path, "its only line is torn, which leaves nothing that says what it is",
                     accepted_kinds);
  return "a log of " + words_of(log);
}

// What it is, in words; throws InputError where nothing more can be said about it.
std::string checked(const std::string& path) {
  std::error_code unreadable;
  if (!fs::exists(path, unreadable) || unreadable)
    throw InputError(path.empty() ? "''" : path, "no such file", accepted_kinds);
  if (fs::is_directory(path)) return checked_run(path);
  switch (file_kind(path)) {
    case FileKind::trial_log:
      return checked_lone_log(path);
    case FileKind::samples:
      return checked_samples(path);
    case FileKind::safetensors:
      return checked_trace(path);
    case FileKind::numpy:
      throw InputError(path, "a NumPy array, such as logits: it has no schema", accepted_kinds);
    case FileKind::json:
      break;
  }
  const nlohmann::json document = read_json_file(path);
  const auto has = [&](const char* field) { return document.is_object() && document.contains(field); };
  if (has("parameters")) {
    // Numbers that a model or machine gives are not known here; the largest that any could have stand in.
    const SearchSpace space =
        search_space_from_json(document, path, check_knob, {{"native", 64}, {"cores", 256}});
    return "a search space of " + counted(space.parameters.size(), "parameter");
  }
  if (has("boxes")) {
    const nlohmann::json& boxes = document["boxes"];
    const bool is_catalogue = boxes.is_array() && !boxes.empty() && boxes.front().is_object() &&
                              boxes.front().contains("memory_gb");
    if (is_catalogue)
      return "a catalogue of " + counted(hardware_catalogue_from_json(document, path).size(), "box", "boxes");
    return "prices of " + counted(price_list_from_json(document, path).boxes.size(), "box", "boxes");
  }
  // What a run directory holds comes before a profile: all of it has a schema number.
  if (has("staleness")) return "a nightly check: " + nightly_entry_from_json(document, path).verdict;
  if (has("points")) return checked_front(document, path);
  if (has("default_configuration"))
    return "the request of a run, model " + checked_request(document, path).model;
  if (has("device") && has("gpu_count"))
    return "the hardware of a run, " + hardware_from_json(document, path).device;
  if (has("configuration") || has("evidence") || has("front")) {
    const LaunchProfile profile = launch_profile_from_json(document, path);
    return "a launch profile for " + profile.model + ", workload " + profile.workload.name;
  }
  if (has("prompt_tokens")) return "a workload, " + workload_from_json(document, path).name;
  throw InputError(path, "no field says what it is",
                   "a space (parameters), a profile (configuration, evidence, front), a workload "
                   "(prompt_tokens), a catalogue "
                   "or prices (boxes), a run's request (default_configuration), hardware (device, "
                   "gpu_count), front (points) "
                   "or check (staleness), samples (measure --samples-out) or a routing trace (trace --out)");
}

ExitCode run_validate(const ValidateOptions& options) {
  const ProblemList problems;
  std::string what;
  attempt([&] { what = checked(options.path); });
  if (!problems.messages().empty()) {
    for (const std::string& message : problems.messages())
      options.console.warn("moetune: " + printable(message));
    // As every refusal, with each problem by itself as well.
    nlohmann::json document = refusal_document(
        ExitCode::bad_input, std::runtime_error(fmt::format("{}", fmt::join(problems.messages(), "\n"))));
    document["file"] = options.path;
    document["valid"] = false;
    document["problems"] = problems.messages();
    options.console.document(document);
    return ExitCode::bad_input;
  }
  options.console.result(printable(options.path + ": OK, " + what));
  options.console.document({{"file", options.path}, {"valid", true}, {"what", what}});
  return ExitCode::done;
}

}  // namespace

Command add_validate_command(CLI::App& program) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App& command = add_subcommand(
      program, "validate", "Check a space, profile, trial log, samples, trace or run against its schema",
      "Says OK and what it is, or names file, field, value and what is accepted for "
      "everything that is wrong (exit code 2).");
  required(add_text_option(command, "FILE", options->path, "PATH", "File or run directory"));
  add_output_options(command, options->console);
  return {&command, [options] { return run_validate(*options); }};
}

}  // namespace moetune
