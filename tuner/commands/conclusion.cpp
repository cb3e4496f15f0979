#include "tuner/commands/conclusion.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "tuner/accuracy_gate.h"
#include "tuner/choose.h"
#include "tuner/commands/export_model.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/table.h"
#include "tuner/durable_file.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/pareto.h"
#include "tuner/report/against_default.h"
#include "tuner/report/final_section.h"
#include "tuner/report/front_table.h"
#include "tuner/round_values.h"
#include "tuner/serving/confirmation.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

LaunchProfile profile_of(const RunReport& report, const Recommendation& recommendation) {
  const std::string request = report.run_path + "/request.json";
  const JsonFields conditions(report.request.conditions, request + ": conditions");
  Workload workload;
  workload.name = report.request.workload;
  if (report.request.conditions.contains("workload"))
    workload = workload_from_json(conditions.object("workload"), conditions.place("workload"));
  if (!report.request.slo.empty())
    workload.slo = parse_slo(report.request.slo);  // what was asked, not the workload's own
  const ProfileContext context{
      .model = report.request.model,
      .model_hash = report.request.model_hash,
      .hardware = hardware_from_json(report.hardware, report.run_path + "/hardware.json"),
      .workload = workload,
      .gate = report.request.gate,
      .space = report.request.space,
      .space_hash = report.request.space_hash,
      .searcher = report.request.searcher,
      .seed = report.request.seed,
      .default_configuration = configuration_from_json(report.request.default_configuration, request)};
  LaunchProfile profile = make_launch_profile(context, recommendation,
                                              pareto_front(report.trials, report.objectives), report.trials);
  if (!report.trials.empty()) profile.measured_at = report.trials.front().started;
  profile.other_work = report.other_work;
  if (!recommendation.final_round) return profile;
  const auto add_rounds = [&](ProfilePoint& point) {
    if (recommendation.final_round->find(point.trial) != nullptr)
      point.rounds = round_values(point.trial, report.measured_again, report.objectives.front().metric);
  };
  add_rounds(profile.recommended);
  if (profile.default_point) add_rounds(*profile.default_point);
  if (profile.runner_up) add_rounds(*profile.runner_up);
  return profile;
}

std::string profile_file_in(const std::string& run_path) { return run_path + "/profile.json"; }

// Empty: there is none, or it is of another build, or damaged: a new one replaces it.
std::optional<LaunchProfile> earlier_profile(const std::string& run_path) {
  const std::string file = profile_file_in(run_path);
  std::error_code ignored;  // unreadable counts as absent
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    return load_launch_profile(file);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// What servers made of the same configuration stays in the profile when it is written again: the log does not
// hold it.
std::vector<Confirmation> confirmations_of(const std::optional<LaunchProfile>& earlier,
                                           const RunReport& report) {
  if (!earlier || !report.verdict.recommended) return {};
  const Trial& chosen = report.trial(*report.verdict.recommended);
  return earlier->recommended.configuration == chosen.configuration.values ? earlier->confirmations
                                                                           : std::vector<Confirmation>{};
}

// What --model was given in that command line; empty: the default.
std::string model_argument(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--model" && i + 1 < command.size()) return command[i + 1];
    if (command[i].starts_with("--model=")) return command[i].substr(std::string("--model=").size());
  }
  return "";
}

// left_as_is: as in Conclusion.
Conclusion concluded(RunReport read, const std::string& gate, const std::string& left_as_is) {
  Conclusion conclusion{.report = std::move(read), .profile = {}, .left_as_is = left_as_is};
  RunReport& report = conclusion.report;
  report.request.gate = gate_named(gate).name;
  const Recommendation recommendation = choose(choice_input(report));
  report.verdict = {.recommended = recommendation.trial,
                    .reason = recommendation.reason,
                    .runner_up = recommendation.runner_up,
                    .why_not_runner_up = recommendation.why_not_runner_up,
                    .final_round = recommendation.final_round,
                    .caution = recommendation.caution};
  report.confirmations = confirmations_of(earlier_profile(report.run_path), report);
  const bool writes = left_as_is.empty();
  const std::string profile_file = profile_file_in(report.run_path);
  if (recommendation.trial) {
    LaunchProfile profile = profile_of(report, recommendation);
    profile.confirmations = report.confirmations;
    report.flags = flags_of_points(profile, model_argument(report.request.command));
    conclusion.profile = to_json_value(profile);
    if (writes) write_file_atomically(profile_file, conclusion.profile->dump(2) + "\n");
  } else if (writes) {
    fs::remove(profile_file);  // an earlier, laxer gate may have left one
  }
  if (writes) write_report_files(report);
  if (recommendation.verdict == Recommendation::Verdict::nothing_measured ||
      recommendation.verdict == Recommendation::Verdict::nothing_keeps_slo)
    conclusion.code = ExitCode::no_feasible_configuration;
  return conclusion;
}

}  // namespace

ChoiceInput choice_input(const RunReport& report) {
  ChoiceInput input{.trials = report.trials,
                    .gate = gate_named(report.request.gate),
                    .objectives = report.objectives,
                    .default_configuration = configuration_from_json(report.request.default_configuration,
                                                                     report.run_path + "/request.json"),
                    .accuracy_parameters = accuracy_parameters(),
                    .slo = std::nullopt,
                    .slo_required = report.request.slo_asked,
                    .measured_again = report.measured_again};
  if (!report.request.slo.empty()) input.slo = parse_slo(report.request.slo);
  return input;
}

std::vector<std::int64_t> worth_recording(const ChoiceInput& input) {
  constexpr std::size_t most = 6;
  std::vector<std::int64_t> numbers;
  const auto add = [&](std::int64_t number) {
    if (numbers.size() < most && std::ranges::find(numbers, number) == numbers.end())
      numbers.push_back(number);
  };
  if (const auto recommended = choose(input).trial) add(*recommended);
  if (!input.trials.empty() && input.trials.front().outcome == Outcome::ok) add(0);
  for (const std::int64_t finalist : finalists(input)) add(finalist);
  for (const Trial& trial : pareto_front(input.trials, input.objectives).trials) add(trial.number);
  return numbers;
}

Conclusion conclude(const std::string& run_path, const std::string& gate) {
  return concluded(read_run(run_path), gate, "");
}

Conclusion look_at(const std::string& run_path, const std::string& gate) {
  RunReport report = read_run(run_path);
  const std::optional<LaunchProfile> earlier = earlier_profile(run_path);
  const std::string of_run = earlier ? earlier->gate : report.request.gate;
  const bool looks_on = !gate.empty() && gate != of_run;
  return concluded(std::move(report), gate.empty() ? of_run : gate, looks_on ? of_run : "");
}

std::string Conclusion::text() const {
  const auto paragraph = [](const std::string& words) { return wrapped(words, 80, 0) + "\n"; };
  std::string text;
  if (const auto note = report.request.conditions.find("model_note");
      note != report.request.conditions.end() && note->is_string())
    text += paragraph(report.request.model + ": " + note->get<std::string>() + ".");
  if (const auto note = report.request.conditions.find("pauses");
      note != report.request.conditions.end() && note->is_string())
    text += paragraph("The workload's time: " + note->get<std::string>() + ".");
  if (!report.verdict.caution.empty()) text += paragraph(report.verdict.caution);
  text += paragraph(report.verdict.reason);
  text += paragraph(against_default_words(report));
  for (const std::string& line : confirmation_lines(report.confirmations)) text += paragraph(line);
  if (report.verdict.final_round) {
    text += paragraph(final_words(report));
    if (const std::string control = control_words(*report.verdict.final_round); !control.empty())
      text += paragraph(control);
  }
  if (!report.verdict.why_not_runner_up.empty()) text += paragraph(report.verdict.why_not_runner_up);
  if (left_as_is.empty())
    text += fmt::format("\n{}/: report.html, report.md, {}front.csv, front.json, trials.jsonl\n",
                        report.run_path, profile ? "profile.json, " : "");
  else
    text += "\n" +
            paragraph(fmt::format(
                "A look under gate {}: nothing is written, profile and report of {} stay those of gate {}.",
                report.request.gate, report.run_path, left_as_is));
  if (!report.verdict.recommended) return text + "Nothing is recommended, so there is no profile.";
  return text + "Launch: " + report.trial(*report.verdict.recommended).configuration.key();
}

nlohmann::json Conclusion::document() const {
  nlohmann::json document = to_front_json(report);
  document["run"] = report.run_path;
  document["written"] = left_as_is.empty();
  document["profile"] = profile ? *profile : nlohmann::json();
  return document;
}

Slo parse_slo(const std::string& text) {
  const auto [metric, limit] = parse_assignment("--slo", text, "metric=time, such as tpot_p99=20ms");
  const std::vector<std::string> metrics = slo_metrics();
  if (std::ranges::find(metrics, metric) == metrics.end())
    throw InputError("--slo", "'" + metric + "'", fmt::format("{}", fmt::join(metrics, ", ")));
  return {.metric = metric, .limit_ms = parse_milliseconds("--slo " + metric, limit)};
}

}  // namespace moetune
