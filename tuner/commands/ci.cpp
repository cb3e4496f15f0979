// moetune ci: does a profile still hold tonight? Measures its configuration and the canaries in turns, judges
// (tuner/nightly_check.h) and says so in the forms that CI systems read. Start at run_ci().
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/gpu_processes.h"
#include "moetune/build_info.h"
#include "tuner/commands/baseline.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/nightly_outputs.h"
#include "tuner/commands/nightly_study.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/retune.h"
#include "tuner/commands/run_paths.h"
#include "tuner/commands/table.h"
#include "tuner/commands/target_options.h"
#include "tuner/durable_file.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"
#include "tuner/nightly_record.h"
#include "tuner/other_work.h"
#include "tuner/round_values.h"
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
  std::string out;
  std::string run;
  NightlyOutputOptions outputs;
  std::vector<std::string> command_line;
};

// Passes of the final round and the trial before it.
constexpr int times_measured = usual_processes + 1;

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

// Looks at most every two seconds: a look reads a file of every process.
std::function<void()> occasionally(std::function<void()> look) {
  using Clock = std::chrono::steady_clock;
  return [look = std::move(look), last = Clock::now()]() mutable {
    if (Clock::now() - last < std::chrono::seconds(2)) return;
    last = Clock::now();
    look();
  };
}

// Others that compute on the study's GPU, by name. To be asked while no worker of ours is there: a container
// may count its processes otherwise than NVML does, so ours could not be told from theirs.
std::vector<std::string> others_on_gpu(const Study& study, const Console& console) {
  if (study.gpu_bus_id.empty()) return {};
  const GpuProcesses found = gpu_processes(study.gpu_bus_id);
  if (!found.problem.empty()) console.warn("other work on the GPU would go unseen: " + found.problem);
  std::vector<std::string> others;
  for (const GpuProcess& process : found.processes)
    others.push_back(fmt::format("{} on the GPU (process {}, {})",
                                 program_name(static_cast<pid_t>(process.id)), process.id,
                                 value_text("device_bytes", static_cast<double>(process.bytes))));
  return others;
}

// What the run says of one configuration tonight.
NightlyPoint point_tonight(const CheckedConfiguration& checked, const NightlyStudyResult& measured,
                           const Objective& objective) {
  NightlyPoint point;
  point.role = checked.role;
  point.configuration = checked.configuration;
  point.then = checked.then;
  point.rounds_then = checked.rounds_then;
  const std::vector<Trial>& trials = measured.conclusion.report.trials;
  const auto trial = std::ranges::find(trials, checked.configuration, &Trial::configuration);
  if (trial == trials.end()) {
    point.failure = "it was not measured";
    return point;
  }
  if (trial->outcome != Outcome::ok) {
    point.failure = fmt::format("{}: {}", name_of(trial->outcome), trial->reason);
    return point;
  }
  point.now = trial->metrics;
  const Finalist* finalist = measured.round ? measured.round->find(trial->number) : nullptr;
  if (finalist == nullptr) return point;
  point.failure = finalist->failure;
  if (!finalist->failure.empty()) return point;
  point.now = with_final_times(trial->metrics, *finalist);
  point.rounds_now = round_values(trial->number, measured.conclusion.report.measured_again, objective.metric);
  return point;
}

NightlyInput input_of(const CiOptions& options, const Baseline& baseline, const Staleness& staleness) {
  NightlyInput input;
  input.threshold = options.threshold;
  input.objective = objectives_named(baseline.profile.objectives.front()).front();
  input.gate = gate_named(baseline.profile.gate);
  input.staleness = staleness;
  return input;
}

NightlyStudy nightly_study(const CiOptions& options, const Baseline& baseline, const Study& study,
                           const std::vector<CheckedConfiguration>& checked) {
  NightlyStudy nightly;
  nightly.run_path = options.run.empty()
                         ? new_run_path(runs_folder, study.model.name, study.workload.name + "-ci")
                         : options.run;
  nightly.baseline = &baseline.profile;
  nightly.default_configuration = standard_of(baseline, study);
  for (const CheckedConfiguration& each : checked) nightly.given.push_back(each.configuration);
  nightly.timing_seconds = options.measuring_seconds / (times_measured * static_cast<double>(checked.size()));
  nightly.command_line = options.command_line;
  if (options.budget_seconds) {
    nightly.budget_seconds = options.budget_seconds;
    nightly.space = space_for(study, baseline.profile.space);
    nightly.front = front_of(baseline.profile);
  }
  return nightly;
}

void print(const NightlyRecord& record, const std::string& run_path, const Console& console) {
  console.result(fmt::format("{}: {}", name_of(record.result.verdict), wrapped(record.result.reason, 80, 0)));
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
  const Study study =
      studies_of(options.common, options.target, options.measuring_seconds / times_measured).front();
  for (const std::string& remark : study.remarks) console.log(remark);
  for (const std::string& warning : study.warnings) console.warn(warning);

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

  std::string run_path;
  std::optional<NightlyStudyResult> measured;
  const Interruption interruption;
  if (staleness.rung <= Rung::other_software) record.input.other_work = others_on_gpu(study, console);
  if (staleness.rung <= Rung::other_software && record.input.other_work.empty()) {
    const std::vector<CheckedConfiguration> checked = checked_configurations(baseline, study);
    NightlyStudy nightly = nightly_study(options, baseline, study, checked);
    run_path = nightly.run_path;
    CpuWatch watch(::getpid(), study.hardware.cpu_cores);
    // Made-up numbers depend on nothing that others do.
    const auto look = [&] {
      if (study.made_up) return;
      if (const auto snapshot = look_at_cpus()) watch.add(*snapshot);
    };
    look();
    nightly.on_look = occasionally(look);
    console.log(
        fmt::format("{}\nmeasuring the baseline's configuration and {} canaries in turns; run directory {}",
                    study_text(study), checked.size() - 1, run_path));
    measured = run_nightly_study(nightly, study, options.target, console, interruption);
    look();
    if (measured->interrupted) {
      console.warn("moetune: interrupted; a check is not resumed, it begins again");
      return ExitCode::interrupted;
    }
    record.seconds = measured->measuring_seconds;
    for (const CheckedConfiguration& each : checked)
      record.input.points.push_back(point_tonight(each, *measured, record.input.objective));
    compare_rounds(record.input.points, record.input.objective);
    std::vector<std::string> others = watch.disturbances();
    for (std::string& other : others_on_gpu(study, console)) others.push_back(std::move(other));
    if (options.judges_beside_other_work && !others.empty())
      console.warn(fmt::format("judged although other work ran beside it: {}", fmt::join(others, ", ")));
    else
      record.input.other_work = std::move(others);
  }
  record.result = judge_nightly(record.input);
  nlohmann::json document = to_json_value(record);
  if (!run_path.empty())
    write_file_atomically(run_path + "/ci.json",
                          document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  document["run"] = run_path.empty() ? nlohmann::json() : nlohmann::json(run_path);
  print(record, run_path, console);
  outputs.write(record, console);

  if (retune_output && measured) {
    RetuneInput input{.baseline = baseline,
                      .study = study,
                      .target = options.target,
                      .record = record,
                      .measured = *measured,
                      .is_whole_search = options.budget_seconds.has_value(),
                      .measuring_seconds = options.measuring_seconds,
                      .run_path = run_path,
                      .command_line = options.command_line};
    document["retune"] = retune(input, *retune_output, console, interruption);
    if (interruption.requested()) return ExitCode::interrupted;
  } else if (retune_output) {
    console.warn(
        "nothing is searched from a baseline of another box or model: 'moetune tune' makes a new one");
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
  add_text_option(command, "--baseline", options->baseline, "PROFILE",
                  "profile.json, or the run directory it lies in");
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
  add_nightly_output_options(command, options->outputs);
  add_flag(command, "--beside-other-work", options->judges_beside_other_work,
           "Judge although other processes keep the processors busy; says so");
  add_common_options(command, options->common, {.model = true, .workload = true, .workload_name = false});
  const auto testing_options = add_target_options(command, options->target);
  options->command_line = command_line;
  return {&command, [options] { return run_ci(*options); }, testing_options};
}

}  // namespace moetune
