// moetune ci: does a profile still hold tonight? Measures its configuration and the canaries in turns, judges
// (tuner/nightly_check.h) and says so in the forms that CI systems read. Start at run_ci().
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "moetune/build_info.h"
#include "tuner/commands/baseline.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/nightly_outputs.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/retune.h"
#include "tuner/commands/table.h"
#include "tuner/commands/target_options.h"
#include "tuner/commands/tonight.h"
#include "tuner/counted.h"
#include "tuner/durable_file.h"
#include "tuner/launch_profile.h"
#include "tuner/nightly_record.h"
#include "tuner/slowdown.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {

struct CiOptions {
  CommonOptions common;
  TargetOptions target;
  std::string baseline;
  double threshold = 0.05;
  double measuring_seconds = 60.0;
  std::optional<double> budget_seconds;
  bool retune = false;
  bool judges_beside_other_work = false;
  std::string baseline_program;
  std::string out;
  std::string run;
  NightlyOutputOptions outputs;
  std::vector<std::string> command_line;
};

ExitCode code_of(NightlyVerdict verdict) {
  switch (verdict) {
    case NightlyVerdict::ok:
      return ExitCode::done;
    case NightlyVerdict::regression:
      return ExitCode::regression;
    case NightlyVerdict::indeterminate:
      return ExitCode::indeterminate;
    case NightlyVerdict::stale:
      return ExitCode::not_comparable;
  }
  return ExitCode::our_fault;
}

NightlyInput input_of(const CiOptions& options, const Baseline& baseline, const Staleness& staleness) {
  NightlyInput input;
  input.threshold = options.threshold;
  input.objective = objectives_named(baseline.profile.objectives.front()).front();
  input.gate = gate_named(baseline.profile.gate);
  input.staleness = staleness;
  if (!options.judges_beside_other_work) input.other_work_then = baseline.profile.other_work;
  return input;
}

// Said before the minute is spent; what fails or misses the gate is still found. Empty: there are enough.
std::string too_few_rounds(const LaunchProfile& profile) {
  if (std::ssize(profile.recommended.rounds) >= fewest_rounds) return "";
  return fmt::format(
      "the baseline holds {} of its final round and {} are the fewest that times can be judged by: this "
      "check can find "
      "failures and lost accuracy, no slowdown. A tune with a larger --budget, or --retune here, makes one "
      "that can be "
      "checked; --baseline-program needs none",
      counted(profile.recommended.rounds.size(), "round"), fewest_rounds);
}

void print(const NightlyRecord& record, const std::string& run_path, const Console& console) {
  console.result(wrapped(fmt::format("{}: {}", name_of(record.result.verdict), record.result.reason), 80, 0));
  for (const std::string& remark : record.result.remarks) console.result(wrapped(remark, 80, 0));
  if (!run_path.empty()) console.result(fmt::format("\n{}/: ci.json, trials.jsonl", run_path));
}

ExitCode run_ci(CiOptions options) {
  const Console& console = options.common.console;
  if (options.retune && options.out.empty())
    throw InputError("--retune", "without --out", "--out PROFILE beside it");
  if (!options.out.empty() && !options.retune && !options.budget_seconds)
    throw InputError("--out", "'" + options.out + "' without a search", "--retune or --budget beside it");
  const Baseline baseline = read_baseline(options.baseline, options.common.model);
  NightlyOutputs outputs(options.outputs);
  std::optional<RetuneOutput> retune_output;
  if (!options.out.empty()) retune_output.emplace(options.out);

  if (options.common.model.empty()) options.common.model = baseline.profile.model;
  options.common.workload = baseline.profile.workload.name;
  options.common.fixed_workload = baseline.profile.workload;
  options.common.seed = baseline.profile.workload.seed;
  const Study study = studies_of(options.common, options.target,
                                 options.measuring_seconds / times_measured(options.measuring_seconds))
                          .front();
  for (const std::string& remark : study.remarks) console.log(remark);
  for (const std::string& warning : study.warnings) console.warn(warning);

  if (const std::string words = too_few_rounds(baseline.profile);
      !words.empty() && options.baseline_program.empty())
    console.warn(words);

  if (options.judges_beside_other_work && !baseline.profile.other_work.empty())
    console.warn(fmt::format("judged although other work ran beside the baseline: {}",
                             fmt::join(baseline.profile.other_work, ", ")));

  NightlyRecord record;
  record.started = utc_now();
  record.baseline = baseline.file;
  record.model = study.model.name;
  record.workload = study.workload.name;
  record.device = study.hardware.device;
  record.build = fmt::format("{} {}", build_info::version, build_info::commit);
  const Staleness staleness =
      staleness_of(baseline.profile, {.hardware = study.hardware, .model_hash = study.model.content_hash});
  record.input = input_of(options, baseline, staleness);

  const Interruption interruption;
  std::optional<Tonight> tonight;
  if (staleness.rung <= Rung::other_software) {
    tonight = measure_tonight({.baseline = baseline,
                               .study = study,
                               .target = options.target,
                               .measuring_seconds = options.measuring_seconds,
                               .budget_seconds = options.budget_seconds,
                               .judges_beside_other_work = options.judges_beside_other_work,
                               .baseline_program = options.baseline_program,
                               .run_path = options.run,
                               .command_line = options.command_line},
                              record, console, interruption);
    if (interruption.requested()) {
      console.warn("moetune: interrupted; a check is not resumed, it begins again");
      return ExitCode::interrupted;
    }
  }
  const std::string run_path = tonight ? tonight->run_path : "";
  record.result = judge_nightly(record.input);
  nlohmann::json document = to_json_value(record);
  if (!run_path.empty())
    write_file_atomically(run_path + "/ci.json",
                          document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  document["run"] = run_path.empty() ? nlohmann::json() : nlohmann::json(run_path);
  print(record, run_path, console);
  outputs.write(record, console);

  if (retune_output && tonight) {
    RetuneInput input{.baseline = baseline,
                      .study = study,
                      .target = options.target,
                      .record = record,
                      .measured = tonight->measured,
                      .is_whole_search = options.budget_seconds.has_value(),
                      .measuring_seconds = options.measuring_seconds,
                      .run_path = run_path,
                      .other_work = tonight->other_work,
                      .command_line = options.command_line};
    document["retune"] = retune(input, *retune_output, console, interruption);
    if (interruption.requested()) return ExitCode::interrupted;
  } else if (retune_output) {
    console.warn(
        "no new profile: nothing was measured; 'moetune tune' makes a baseline for this box and model");
  }
  console.document(document);
  return code_of(record.result.verdict);
}

}  // namespace

Command add_ci_command(CLI::App& program, const std::vector<std::string>& command_line) {
  auto options = std::make_shared<CiOptions>();
  options->common.model.clear();
  CLI::App& command =
      add_subcommand(program, "ci", "Nightly: check a fresh run against a baseline profile",
                     "Measures the baseline's configuration, the default and the runner-up in turns, in "
                     "fresh processes, and compares them with what "
                     "the profile says. Workload, seed, gate and objectives are the profile's.\n\n"
                     "  moetune tune --model DIR --run runs/baseline\n"
                     "  moetune ci --baseline runs/baseline --model DIR --junit ci.xml\n"
                     "  moetune ci --baseline runs/baseline --model DIR --retune --out profile.json\n\n"
                     "Exit codes: 0 ok, 3 regression, 5 indeterminate (too noisy, or other work ran), 6 "
                     "stale or not comparable, 2 no baseline.");
  add_text_option(command, "--baseline", options->baseline, "PROFILE|DIR|NAME",
                  "profile.json, the run directory it lies in, or a name of 'moetune list profiles'");
  add_parsed_option(command, "--threshold", options->threshold, parse_per_cent, "5%",
                    "The slowdown that must be found", "5%");
  add_parsed_option(command, "--measuring", options->measuring_seconds, parse_duration_seconds, "90s|20m|2h",
                    "Time for measuring, loading not counted", "60s");
  add_parsed_option(command, "--budget", options->budget_seconds, parse_duration_seconds, "90s|20m|2h",
                    "Make it a whole search of that time, which begins with the baseline's front");
  add_flag(command, "--retune", options->retune, "Search again the knobs whose effect moved; needs --out");
  add_text_option(command, "--out", options->out, "PROFILE",
                  "Where the new profile goes, and beside it PROFILE.diff.md");
  add_text_option(command, "--run", options->run, "DIR",
                  "Run directory (default: runs/<time>-<model>-<workload>-ci)");
  add_text_option(
      command, "--baseline-program", options->baseline_program, "FILE",
      "The moetune that made the baseline, or last night's: measured in turns with this one, so that "
      "the machine's mood cancels");
  add_nightly_output_options(command, options->outputs);
  add_flag(command, "--beside-other-work", options->judges_beside_other_work,
           "Judge although other processes keep the processors busy; says so");
  add_common_options(command, options->common, {.model = true, .workload = true, .workload_name = false});
  const auto testing_options = add_target_options(command, options->target);
  options->command_line = command_line;
  return {&command, [options] { return run_ci(*options); }, testing_options};
}

}  // namespace moetune
