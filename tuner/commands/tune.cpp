// moetune tune: search, measure, recommend. Puts the pieces together; the search itself is tuner/tune.h, what
// is concluded from it conclusion.h. Start at run_study().
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tuner/accuracy_gate.h"
#include "tuner/choose.h"
#include "tuner/commands/box_facts_of.h"
#include "tuner/commands/cheapest_configurations.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/conclusion.h"
#include "tuner/commands/disturbances.h"
#include "tuner/commands/measurable.h"
#include "tuner/commands/neighbour_watch.h"
#include "tuner/commands/profile_registry.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/refusal.h"
#include "tuner/commands/resume_options.h"
#include "tuner/commands/run_paths.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_requests.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/commands/target_options.h"
#include "tuner/counted.h"
#include "tuner/doctor/box_json.h"
#include "tuner/interruption.h"
#include "tuner/json_facts.h"
#include "tuner/other_work_file.h"
#include "tuner/progress.h"
#include "tuner/report/front_plot.h"
#include "tuner/run_directory.h"
#include "tuner/searcher.h"
#include "tuner/searchers/after_failed_default.h"
#include "tuner/targets/arrivals.h"
#include "tuner/terminal.h"
#include "tuner/trial_log.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

constexpr auto default_objectives = "tpot_ms,kl_mean,device_bytes";
constexpr auto synthetic_objectives = "tpot_ms,output_snr_db,device_bytes";

constexpr std::size_t tried_after_failed_default = 4;

struct TuneOptions {
  CommonOptions common;
  TargetOptions target;
  std::string space = "default";
  std::string searcher = "nsga2";
  std::optional<std::int64_t> max_trials;
  double budget_seconds = 180.0;
  double timing_seconds = 2.0;
  std::string objectives = default_objectives;
  std::string gate = "int8";
  std::string slo;
  std::string run;
  bool resume = false;
  bool save = false;
  bool force = false;
  std::string box;  // file; empty: this machine
  std::vector<std::string> command_line;
};

std::string grouped_removals(const LegalSet& legal) {
  std::string text;
  for (const auto& [reason, count] : legal.removed)
    text += fmt::format("\n  {:>5}  {}", count, wrapped(reason, 78, 9));
  return text;
}

// The space as this model and machine allow it, in words.
std::string space_text(const SearchSpace& space, const LegalSet& legal) {
  std::string text = fmt::format("space {}: {} of {} configurations can run here", space.name,
                                 legal.ranks.size(), legal.declared);
  if (legal.sampled)
    text = fmt::format("space {}: {} configurations, of which a sample of {} is searched", space.name,
                       legal.declared, legal.ranks.size());
  if (!legal.removed.empty()) text += "; left out:" + grouped_removals(legal);
  return text;
}

LegalSet legal_set(const Study& study, const SearchSpace& space) {
  try {
    return legal_configurations(space, study.kind_of_objection);
  } catch (const NoFeasibleConfiguration&) {
    const auto nearest = study.made_up ? std::nullopt : nearest_misfit(study, space);
    if (!nearest) throw;
    throw DoesNotFit(nearest->words, nearest->missing_bytes);
  }
}

// What cannot be known of synthetic weights cannot be searched for.
std::string objectives_of(const TuneOptions& options, const Study& study) {
  if (study.model.is_synthetic && options.objectives == default_objectives) return synthetic_objectives;
  return options.objectives;
}

RunRequest request_of(const TuneOptions& options, const Study& study, const SearchSpace& space,
                      const Configuration& default_one) {
  RunRequest request = run_request_of(study, default_one);
  request.space = space.name;
  request.space_hash = space.hash();
  request.searcher = options.searcher;
  for (const Objective& objective : objectives_named(objectives_of(options, study)))
    request.objectives.push_back(objective.metric);
  request.seed = options.common.seed;
  request.gate = options.gate;
  if (!options.slo.empty()) request.slo = options.slo;
  request.slo_asked = !options.slo.empty();
  request.command = options.command_line;
  return request;
}

RunDirectory open_run(const TuneOptions& options, const RunRequest& request, const nlohmann::json& hardware) {
  if (options.resume)
    return RunDirectory::resume(options.run.empty() ? latest_run() : options.run, request, hardware,
                                resume_option);
  const std::string path =
      options.run.empty() ? new_run_path(runs_folder, request.model, request.workload) : options.run;
  RunDirectory run = RunDirectory::create(path, request, hardware);
  link_latest(runs_folder, path);
  return run;
}

// The trials are what a run goes by: where the folder has lost the rate of arrivals that they were measured
// at, they give it back. Returns why they could not; empty: they did, or there was nothing to do.
std::string keep_arrival_rate(const std::string& folder, std::span<const Trial> trials) {
  if (read_arrival_rate(folder).per_s > 0.0) return "";
  for (const Trial& trial : trials)
    if (const auto rate = trial.metrics.find("arrivals_per_s"); rate != trial.metrics.end())
      return write_arrival_rate(folder, {rate->second.value, rate->second.stopped});
  return "";
}

std::size_t lines_of(const TrialLog& log) { return log.trials().size() + log.measured_again().size(); }

struct StudyOutcome {
  ExitCode code = ExitCode::done;
  nlohmann::json document;
  std::string run = {};  // directory
};

// What doctor says of this box, as far as the study suffers from it.
std::vector<Finding> box_findings(const TuneOptions& options, const Study& study) {
  if (study.made_up && options.box.empty()) return {};
  return findings_for(options.box.empty() ? look_at_box(false) : read_box_file(options.box),
                      study.device == DeviceKind::cuda);
}

std::string doctor_words(const Finding& finding) {
  return fmt::format("doctor: {}: {}; helps: {}", finding.what, finding.consequence, finding.remedy);
}

// Where findings spoil every measurement: why nothing is measured. Empty: go on.
std::optional<StudyOutcome> stopped_by(const std::vector<Finding>& findings, const TuneOptions& options) {
  const Console& console = options.common.console;
  nlohmann::json spoiling = nlohmann::json::array();
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::spoils) continue;
    console.warn(doctor_words(finding));
    spoiling.push_back(to_json_value(finding));
  }
  if (spoiling.empty()) return std::nullopt;
  if (options.force) {
    console.warn("measuring all the same (--force): no number of this run says what the machine can do");
    return std::nullopt;
  }
  console.warn("moetune: nothing was measured, it could not be trusted; --force measures all the same");
  return StudyOutcome{.code = ExitCode::indeterminate,
                      .document = {{"indeterminate", true}, {"findings", spoiling}}};
}

// seat: where it is given, only the search is run, in the worker that is found there; its final round and
// conclusion are left to a later sitting over the same run directory.
StudyOutcome run_study(const TuneOptions& options, Study study, const Interruption& interruption,
                       const std::shared_ptr<WorkerSeat>& seat = nullptr) {
  const Console& console = options.common.console;
  study = for_launch(std::move(study));
  const std::vector<Objective> objectives = objectives_named(objectives_of(options, study));
  const AccuracyGate& gate = gate_named(options.gate);
  const SearchSpace space = space_for(study, options.space);
  const LegalSet legal = legal_set(study, space);
  const Configuration default_one = default_configuration(study, space);
  const std::vector<Finding> findings = box_findings(options, study);
  if (const std::optional<StudyOutcome> stopped = stopped_by(findings, options)) return *stopped;
  RunDirectory run =
      open_run(options, request_of(options, study, space, default_one), to_json_value(study.hardware));
  TrialLog log(run.trials_file());
  study = with_folder(std::move(study), std::filesystem::absolute(run.path()).string());
  if (const std::string problem = keep_arrival_rate(run.path(), log.trials()); !problem.empty())
    console.warn(problem);

  for (const Finding& finding : findings)
    if (finding.severity == Severity::warning) console.log(doctor_words(finding));
  console.log(study_text(study));
  for (const std::string& remark : study.remarks) study.made_up ? console.warn(remark) : console.log(remark);
  console.log(space_text(space, legal));
  console.log(fmt::format("run directory {}; Ctrl-C stops, --resume goes on\n", run.path()));
  if (!run.notice().empty()) console.warn(run.notice());

  Progress progress(stderr, terminal_of(2), console.quiet);
  TuneRequest request = tune_request_of(study, default_one, objectives, options.common.seed, progress);
  request.acceptable = [&](const Trial& trial) {
    const GateVerdict verdict = judge(trial.metrics, gate).verdict;
    return verdict == GateVerdict::met ||
           (verdict == GateVerdict::unknown && keeps_accuracy(trial.configuration, default_one));
  };
  request.max_trials = options.max_trials;
  if (options.budget_seconds > 0.0) request.budget_seconds = options.budget_seconds;
  request.different_configurations = count_with(legal, space, default_one);
  RunReport asked = read_run(run.path());  // as the conclusion will read it
  asked.request.gate = gate.name;
  asked.measured_again.clear();
  request.finalists = [&](std::span<const Trial> trials) {
    ChoiceInput input = choice_input(asked);
    input.trials = trials;
    return finalists(input);
  };
  if (study.records_apart)
    request.to_record = [&](std::span<const Trial> trials, std::span<const Trial> measured_again) {
      ChoiceInput input = choice_input(asked);
      input.trials = trials;
      input.measured_again = measured_again;
      return worth_recording(input);
    };
  request.recording_setup = recording_setup(study);
  request.timing_setup = timing_setup(study, turn_share * options.timing_seconds);
  NeighbourWatch neighbours(study);
  request.on_status = [&](const TuneStatus& status) {
    neighbours.look();
    progress.show(status);
  };
  request.on_remark = [&](const std::string& line) {
    if (!console.quiet) progress.message(line);
  };
  request.stops_before_final_round = seat != nullptr;
  study = with_run_limit(std::move(study),
                         options.target.run_limit_seconds(options.timing_seconds, options.budget_seconds));
  TrialRunnerSettings runner_settings =
      options.target.runner_settings(study, options.timing_seconds, options.budget_seconds);
  runner_settings.seat = seat;
  const auto cheapest = [&] {
    std::vector<Configuration> next =
        cheapest_configurations(study, space, legal, default_one, gate, tried_after_failed_default);
    if (!next.empty())
      progress.message(
          "the default configuration cannot be measured: next come those that move the fewest bytes per "
          "step");
    return next;
  };
  AfterFailedDefaultSearcher searcher(
      default_one, cheapest,
      make_searcher(options.searcher, {space, legal, objectives, options.common.seed}));
  const std::size_t lines_before = lines_of(log);
  const TuneResult result = tune(request, searcher, log, runner_settings, interruption);
  progress.clear();

  const bool interrupted = result.stop == TuneResult::Stop::interrupted;
  if (seat && !interrupted) return {.code = ExitCode::done, .document = {}, .run = run.path()};
  Disturbances disturbances;  // a sitting that found everything done was disturbed by nobody
  if (lines_of(log) > lines_before) disturbances = disturbances_of(neighbours);
  add_other_work(run.path(), disturbances.all());
  const Conclusion conclusion = conclude(run.path(), options.gate);
  if (options.save && !interrupted && conclusion.profile) {
    const SavedProfile saved = save_profile(*conclusion.profile, options.common.device_memory_bytes);
    if (!saved.remark.empty()) console.warn("moetune: " + saved.remark);
    console.log("profile saved as " + saved.file);
  }
  console.result(fmt::format(
      "{}{} in {} of measuring; {}\n", counted(log.trials().size(), "trial"),
      log.measured_again().empty()
          ? ""
          : fmt::format(" and {} of the final round", counted(log.measured_again().size(), "turn")),
      duration_text(result.measuring_seconds), result.why));
  console.result(draw_front(conclusion.report, terminal_of(1)));
  console.result(conclusion.text());
  StudyOutcome outcome{.code = conclusion.code, .document = conclusion.document()};
  outcome.document["interrupted"] = interrupted;
  add_to(outcome.document, disturbances);
  for (const std::string& line :
       lines_about(disturbances, "turns of one pass share that, so their ratios hold", "indeterminate: "))
    console.warn(line);
  if (disturbances.is_worthless()) outcome.code = ExitCode::indeterminate;
  if (interrupted) {
    outcome.code = ExitCode::interrupted;
    console.warn(fmt::format(
        "moetune: interrupted after {}; 'moetune tune --resume --run {}' with the same options goes on",
        counted(log.trials().size(), "trial"), run.path()));
  }
  return outcome;
}

ExitCode run_tune(const TuneOptions& options) {
  const Console& console = options.common.console;
  // Texts that are only looked at later are read once now: a slip must not cost the time of opening a model.
  gate_named(options.gate);
  objectives_named(options.objectives);
  if (!options.slo.empty()) parse_slo(options.slo);
  if (options.save && options.target.target != "engine")
    throw InputError("--save", "with --target " + options.target.target,
                     "numbers that were measured, for a registry of profiles");
  if (options.target.target != "engine" && options.common.workload.find(',') != std::string::npos)
    throw InputError("--workload", "'" + options.common.workload + "' with --target " + options.target.target,
                     "one workload");
  const std::vector<std::string> searchers = searcher_names();
  if (std::ranges::find(searchers, options.searcher) == searchers.end())
    throw InputError("--searcher", "no searcher named '" + options.searcher + "'",
                     fmt::format("{}", fmt::join(searchers, ", ")));

  std::vector<Study> studies = studies_of(options.common, options.target, options.timing_seconds);
  if (!options.slo.empty())
    for (Study& study : studies) study = with_slo(std::move(study), parse_slo(options.slo));
  for (const Study& study : studies)
    require_measurable(objectives_of(options, study), study);  // before the first one is searched
  const std::string& gpu = studies.front().unused_gpu;
  if (!gpu.empty()) console.json ? console.warn(gpu) : console.result(gpu);
  for (const std::string& warning : studies.front().warnings) console.warn(warning);
  if (studies.size() > 1 && !options.run.empty())
    throw InputError("--run", "'" + options.run + "' with several workloads", "one workload, or no --run");
  if (studies.size() > 1 && options.resume)
    throw InputError("--resume", "with several workloads", "one workload");

  const Interruption interruption;
  nlohmann::json documents = nlohmann::json::array();
  ExitCode code = ExitCode::done;       // of the searches
  ExitCode last_code = ExitCode::done;  // of the conclusions
  // Searches of several workloads share a worker, and with it the weights; the final rounds, which are
  // measured in processes of their own, come after all of them.
  std::vector<std::string> runs;
  if (studies.size() > 1) {
    const auto seat = std::make_shared<WorkerSeat>();
    for (const Study& study : studies) {
      StudyOutcome outcome = run_study(options, study, interruption, seat);
      runs.push_back(outcome.run);
      if (outcome.code == ExitCode::done) continue;
      code = outcome.code;
      documents.push_back(std::move(outcome.document));
      break;
    }
  }
  for (std::size_t i = 0; i < studies.size() && code == ExitCode::done; ++i) {
    TuneOptions own = options;
    if (!runs.empty()) {
      own.run = runs[i];
      own.resume = true;
    }
    StudyOutcome outcome = run_study(own, studies[i], interruption);
    documents.push_back(std::move(outcome.document));
    if (outcome.code != ExitCode::done) last_code = outcome.code;
    if (interruption.requested()) break;
  }
  if (code == ExitCode::done) code = last_code;
  console.document(studies.size() == 1 ? documents.front() : documents);
  if (!gpu.empty()) console.json ? console.warn(gpu) : console.result(gpu);
  return code;
}

}  // namespace

Command add_tune_command(CLI::App& program, const std::vector<std::string>& command_line) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App& command =
      add_subcommand(program, "tune", "Search, measure, recommend; writes a run directory",
                     "--workload chat,agent searches for one after the other and writes one profile each.\n\n"
                     "  moetune tune\n"
                     "  moetune tune --model DIR --workload chat --budget 20m\n"
                     "  moetune tune --resume\n\n"
                     "Exit codes: 0 done, 2 bad input, 4 nothing fits into memory or keeps --slo, 5 the box "
                     "spoils every measurement, 130 interrupted with state saved.");
  add_text_option(command, "--space", options->space, "NAME|FILE",
                  "What may vary; see 'moetune list spaces'");
  add_text_option(command, "--searcher", options->searcher, "NAME",
                  "Who proposes; see 'moetune list searchers'");
  add_parsed_option(
      command, "--max-trials", options->max_trials,
      [](const std::string& flag, const std::string& text) {
        return parse_whole_number(flag, text, 1, 1000000);
      },
      "N", "Trials at most, the default configuration included (default: as the budget allows)");
  add_parsed_option(command, "--budget", options->budget_seconds, parse_duration_seconds, "90s|20m|2h",
                    "Time for trials and the final round, which gets a quarter", "3m");
  add_parsed_option(command, "--timing", options->timing_seconds, parse_duration_seconds, "90s|20m|2h",
                    "Most time for timing one configuration; ends earlier when the interval is narrow", "2s");
  add_text_option(command, "--objective", options->objectives, "METRIC,...",
                  "What is traded off, the first is what is recommended by; see 'moetune list metrics'");
  add_text_option(command, "--gate", options->gate, "lossless|int8|int4|none",
                  "How accurate a recommendation must be");
  add_text_option(command, "--slo", options->slo, "METRIC=TIME",
                  "A limit a recommendation must keep, such as tpot_p99=20ms");
  add_text_option(command, "--run", options->run, "DIR",
                  "Run directory (default: runs/<time>-<model>-<workload>)");
  add_flag(command, "--resume", options->resume,
           "Go on with --run DIR, or with the latest run; the options it began with must be given again "
           "(--budget and --max-trials may change)");
  add_flag(command, "--force", options->force,
           "Measure although doctor finds what spoils it (exit code 5 otherwise)");
  add_flag(command, "--save", options->save,
           "Copy the profile into the registry of profiles, in place of the one there");
  add_read_option(
      command, "--warm-start",
      [](const std::string& text) {
        throw InputError("--warm-start", "'" + text + "': this build starts every search afresh", "");
      },
      "...", "Not in this build yet");
  add_common_options(command, options->common, {.model = true, .workload = true});
  auto testing_options = add_target_options(command, options->target);
  testing_options.push_back(hidden(add_text_option(command, "--box", options->box, "FILE",
                                                   "Take another box for this one; see doctor --box")));
  options->command_line = command_line;
  return {&command, [options] { return run_tune(*options); }, testing_options};
}

}  // namespace moetune
