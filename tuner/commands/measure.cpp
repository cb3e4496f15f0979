// moetune measure: one configuration, every metric, with intervals. The same path as a trial of tune, but
// timed anew in several worker processes, one after the other: replicate.h.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tuner/accuracy_gate.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/disturbances.h"
#include "tuner/commands/live_words.h"
#include "tuner/commands/measure_op.h"
#include "tuner/commands/neighbour_watch.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/refusal.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/commands/target_options.h"
#include "tuner/commands/temporary_folder.h"
#include "tuner/counted.h"
#include "tuner/interruption.h"
#include "tuner/json_facts.h"
#include "tuner/metric_facts.h"
#include "tuner/replicate.h"
#include "tuner/sample_series.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

// Times --budget that processes may take where starting one (reading and packing the weights) takes long.
constexpr double patience = 4.0;

// The interval of the median over 25 is the eighth to the eighteenth: the middle of what processes differ by.
// Of 9 it would be nearly all of it, and one slow moment of the machine in ten seconds would be an end of it.
constexpr int fresh_processes = 25;

struct MeasureOptions {
  CommonOptions common;
  TargetOptions target;
  std::vector<std::string> settings;
  std::optional<double> asked_budget_seconds;
  double budget_seconds = 10.0;
  std::string samples_out;
  MeasureOpOptions op;
};

// "0.409 - 0.415", in the unit of the value; empty without an interval.
std::string interval_text(const std::string& metric, const Measurement& measurement) {
  if (!measurement.low || !measurement.high) return "";
  return moetune::interval_text(metric, *measurement.low, *measurement.high, " - ");
}

std::string thousands(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3;) text.insert(place -= 3, 1, ',');
  return text;
}

// In the order of the metric table; what it does not know comes last.
std::vector<std::string> ordered_names(const Metrics& metrics) {
  std::vector<std::string> names;
  for (const MetricFacts& facts : known_metrics())
    if (metrics.contains(std::string(facts.name))) names.emplace_back(facts.name);
  for (const auto& [name, measurement] : metrics)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::string metrics_table(const Metrics& metrics) {
  Table table{.headings = {"metric", "value", "95 % interval", "p99", "n", "processes"},
              .alignment = {Align::left, Align::left, Align::left, Align::right, Align::right, Align::right},
              .rows = {}};
  for (const std::string& name : ordered_names(metrics)) {
    const Measurement& measurement = metrics.at(name);
    table.rows.push_back({name, value_text(name, measurement.value), interval_text(name, measurement),
                          measurement.p99 ? number_text(name, *measurement.p99) : "",
                          thousands(measurement.n), std::to_string(measurement.processes)});
  }
  return table.text();
}

// Says of every number where it comes from, in as few words as they allow.
std::string origin_text(const Metrics& metrics) {
  std::vector<std::string> others;
  for (const auto& [name, measurement] : metrics)
    if (measurement.origin != Origin::measured) others.push_back(name);
  if (others.empty()) return "Every value is measured.";
  return fmt::format("Measured, except {}: predicted or extrapolated.", fmt::join(others, ", "));
}

std::string stop_text(const Metrics& metrics) {
  const auto rate = metrics.find("tokens_per_s");
  if (rate == metrics.end() || rate->second.stopped.empty()) return "";
  return fmt::format("Timing ended after {} of the workload in {}: {}.", counted(rate->second.n, "run"),
                     counted(rate->second.processes, "process", "processes"), rate->second.stopped);
}

std::string throttle_text(const Metrics& metrics) {
  const auto rate = metrics.find("tokens_per_s");
  if (rate == metrics.end() || rate->second.throttled == 0) return "";
  return fmt::format("Left out: {} while the machine was throttled.", counted(rate->second.throttled, "run"));
}

// The processes' own medians, smallest first, so that an interval can be seen to come from them.
std::string processes_text(const std::vector<Metrics>& processes, const Metrics& over_all) {
  constexpr auto metric = "tpot_ms";
  std::vector<double> medians;
  for (const Metrics& metrics : processes)
    if (const auto found = metrics.find(metric); found != metrics.end())
      medians.push_back(found->second.value);
  if (medians.size() < 2 || !over_all.contains(metric)) return "";
  const Measurement& all = over_all.at(metric);
  std::ranges::sort(medians);
  std::vector<std::string> words;
  for (const double value : medians) words.push_back(number_text(metric, value));
  std::string text = fmt::format("{} of each process: {}", metric, fmt::join(words, " "));
  if (all.effective)
    text += fmt::format(
        "\nNeighbouring processes resemble each other: they tell as much as {:.0f} independent ones, and the "
        "interval "
        "comes from blocks of them.",
        *all.effective);
  if (!has_known_confidence(all))
    text += fmt::format(
        "\nOnly {} processes in {} times --budget: the interval is the range of their own ones, without a "
        "known "
        "confidence. A larger --budget gives more.",
        medians.size(), patience);
  return text;
}

void print_trial(const Study& study, const Replication& replication, const Console& console) {
  const Trial& trial = replication.trial;
  console.result(study_text(study));
  console.result("configuration: " + trial.configuration.key() + "\n");
  console.result(metrics_table(trial.metrics));
  console.result("\n" + origin_text(trial.metrics) + (study.made_up ? " All of it is made up." : ""));
  for (const std::string& text :
       {stop_text(trial.metrics), processes_text(replication.processes, trial.metrics),
        throttle_text(trial.metrics)})
    if (!text.empty()) console.result(text);
  // The strictest gate that is met says the most; none met, the widest one says by how much.
  GateJudgement judgement;
  for (const AccuracyGate& gate : accuracy_gates()) {
    if (gate.is_open) continue;
    judgement = judge(trial.metrics, gate);
    if (judgement.verdict == GateVerdict::met) break;
  }
  console.result(study.model.is_synthetic
                     ? "Accuracy: unknown, the weights are synthetic; output_snr_db and router_mass stand in."
                     : "Accuracy: " + judgement.words + ".");
}

nlohmann::json document_of(const Study& study, const Replication& replication) {
  nlohmann::json document = to_json_value(replication.trial);
  document["processes"] = nlohmann::json::array();
  for (const Metrics& metrics : replication.processes)
    document["processes"].push_back(to_json_value(metrics));
  document["model"] = study.model.name;
  document["model_hash"] = study.model.content_hash;
  document["workload"] = to_json_value(study.workload);
  document["hardware"] = to_json_value(study.hardware);
  document["conditions"] = study.conditions;
  if (study.made_up) document["made_up"] = true;
  if (study.model.is_synthetic) {
    document["synthetic_weights"] = true;
    document["model_note"] = model_note(study.model);
    // No number is known, which is not the same as not having looked.
    for (const char* unknown : {"kl_mean", "kl_p99", "top1_agreement", "perplexity_ratio", "route_flip_rate"})
      document["metrics"][unknown] = nullptr;
  }
  return document;
}

ExitCode code_of(const Trial& trial) {
  switch (trial.outcome) {
    case Outcome::ok:
      return ExitCode::done;
    case Outcome::infeasible:
    case Outcome::out_of_memory:
      return ExitCode::no_feasible_configuration;
    case Outcome::wrong_output:
    case Outcome::timed_out:
    case Outcome::crashed:
      return ExitCode::our_fault;
  }
  return ExitCode::our_fault;
}

// Begins the file of raw times, to which the workers append, and tells them of it.
void begin_samples(const std::string& flag, const std::string& path, const Configuration& configuration,
                   Study& study) {
  if (study.made_up) throw InputError(flag, "with --target synthetic, which takes no samples", "the engine");
  const std::filesystem::path file = std::filesystem::absolute(path);
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
    throw InputError(flag, "'" + path + "' is no regular file", "a file to write");
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << header_line({{"model", study.model.name},
                      {"model_hash", study.model.content_hash},
                      {"workload", to_json_value(study.workload)},
                      {"configuration", to_json_value(configuration)},
                      {"hardware", to_json_value(study.hardware)}});
  if (!out.flush()) throw InputError(flag, "'" + path + "' cannot be written", "a file to write");
  study.worker_setup.at("engine")["samples_out"] = file.string();
}

ExitCode run_measure(MeasureOptions options) {
  if (options.asked_budget_seconds)
    options.budget_seconds = options.op.budget_seconds = *options.asked_budget_seconds;
  if (!options.op.ops.empty() && !options.samples_out.empty())
    throw InputError("--samples-out", "with --op", "a configuration, not single ops");
  if (!options.op.ops.empty()) return measure_ops(options.common, options.op, options.settings);
  const Console& console = options.common.console;
  const double seconds_each = options.budget_seconds / fresh_processes;
  const std::vector<Study> studies = studies_of(options.common, options.target, seconds_each);
  if (studies.size() != 1)
    throw InputError("--workload", "'" + options.common.workload + "'", "one workload for measure");
  const TemporaryFolder folder;
  Study study = with_folder(studies.front(), folder.path());
  const Configuration configuration = configuration_from_settings(study, options.settings);
  for (const std::string& remark : study.remarks) console.log(remark);
  if (const auto objection = study.objection(configuration)) {
    // Too little memory is an answer about this machine; anything else is a slip of the one who asks.
    if (is_about_memory(study, configuration))
      throw DoesNotFit(configuration.key() + " does not fit: " + *objection,
                       missing_bytes(study, configuration));
    throw InputError("--set", *objection, "");
  }
  if (!study.unused_gpu.empty()) console.warn(study.unused_gpu);
  for (const std::string& warning : study.warnings) console.warn(warning);

  if (!options.samples_out.empty()) begin_samples("--samples-out", options.samples_out, configuration, study);
  const Interruption interruption;
  NeighbourWatch neighbours(study);
  LiveWords live(console);
  ReplicationSettings settings{.everything = options.target.runner_settings(study, seconds_each),
                               .timing_setup = timing_setup(study, seconds_each),
                               .processes = fresh_processes,
                               .most_seconds = patience * options.budget_seconds};
  settings.everything.on_progress = [&](const std::string& words) { live.show(words); };
  settings.everything.on_tick = [&] { neighbours.look(); };
  settings.everything.on_message = [&](const std::string& line) {
    live.clear();
    console.warn(line);
  };
  const std::optional<Replication> replication =
      measure_in_processes(settings, configuration, options.common.seed, interruption);
  live.clear();
  if (!replication) {
    console.warn("moetune: interrupted");
    return ExitCode::interrupted;
  }
  const Trial& trial = replication->trial;
  const Disturbances disturbances = disturbances_of(neighbours);
  nlohmann::json document = document_of(study, *replication);
  add_to(document, disturbances);
  console.document(document);
  if (trial.outcome == Outcome::ok) {
    print_trial(study, *replication, console);
  } else {
    console.warn(
        fmt::format("moetune: {}: {}: {}", configuration.key(), name_of(trial.outcome), trial.reason));
  }
  for (const std::string& line : lines_about(disturbances, "", "indeterminate: ")) console.warn(line);
  if (!study.unused_gpu.empty()) console.warn(study.unused_gpu);
  return disturbances.is_worthless() && trial.outcome == Outcome::ok ? ExitCode::indeterminate
                                                                     : code_of(trial);
}

}  // namespace

Command add_measure_command(CLI::App& program) {
  auto options = std::make_shared<MeasureOptions>();
  CLI::App& command =
      add_subcommand(program, "measure", "One configuration, every metric, with intervals",
                     "Knobs that are not set have their default: native top_k, the checkpoint's number "
                     "types, every expert in memory as far as "
                     "it fits. 'moetune list metrics' says what each metric is.\n\n"
                     "  moetune measure\n"
                     "  moetune measure --set top_k=6 --set expert_quant=int4 --json\n"
                     "  moetune measure --op moe,attention --model qwen3-30b-a3b --tokens 1,32\n\n"
                     "Exit codes: 0 measured, 2 bad input, 4 does not fit into memory, 1 it crashed, timed "
                     "out or gave wrong output, 5 something came beside it that spoils the times.");
  add_repeated_option(command, "--set", options->settings, "KNOB=VALUE",
                      "Change a knob; any number of times; see 'moetune list knobs'");
  add_parsed_option(
      command, "--budget", options->asked_budget_seconds, parse_duration_seconds, "90s|20m|2h",
      "Most time for timing, over all processes; ends earlier when intervals are narrow. With "
      "--op: for weights, KV cache and all ops, a quarter of it at least for timing (default: 1m)",
      "10s");
  add_text_option(command, "--samples-out", options->samples_out, "FILE",
                  "Also keep the raw times of every run and token, one JSON object a line");
  add_measure_op_options(command, options->op);
  add_common_options(command, options->common, {.model = true, .workload = true});
  refuse_beside_op(command, {"--workload", "--calibration", "--usd-per-hour"});
  const auto testing_options = add_target_options(command, options->target);
  return {&command, [options] { return run_measure(*options); }, testing_options};
}

}  // namespace moetune
