#include "tuner/commands/tonight.h"

#include <algorithm>

#include <fmt/format.h>

#include "tuner/commands/disturbances.h"
#include "tuner/commands/neighbour_watch.h"
#include "tuner/commands/run_paths.h"
#include "tuner/commands/study_space.h"
#include "tuner/other_work_file.h"
#include "tuner/round_values.h"

namespace moetune {
namespace {

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
    point.failure = "the budget ended before its turn";
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

NightlyStudy nightly_study(const TonightInput& input, const std::vector<CheckedConfiguration>& checked) {
  const LaunchProfile& profile = input.baseline.profile;
  NightlyStudy nightly;
  nightly.run_path = input.run_path.empty() ? new_run_path(runs_folder, input.study.model.name,
                                                           input.study.workload.name + "-ci")
                                            : input.run_path;
  nightly.baseline = &profile;
  nightly.default_configuration = standard_of(input.baseline, input.study);
  for (const CheckedConfiguration& each : checked) nightly.given.push_back(each.configuration);
  const std::size_t each_pass = checked.size() + (input.baseline_program.empty() ? 0 : 1);
  nightly.timing_seconds =
      input.measuring_seconds / (times_measured(input.measuring_seconds) * static_cast<double>(each_pass));
  nightly.limits = nightly_limits(input.measuring_seconds);
  nightly.baseline_program = input.baseline_program;
  nightly.command_line = input.command_line;
  if (input.budget_seconds) {
    nightly.budget_seconds = input.budget_seconds;
    nightly.space = space_for(input.study, profile.space);
    nightly.front = front_of(profile);
  }
  return nightly;
}

}  // namespace

FinalLimits nightly_limits(double measuring_seconds) {
  constexpr std::int64_t most = 60;
  return {.passes = std::clamp(static_cast<std::int64_t>(measuring_seconds), usual_passes, most),
          .fewest = usual_passes,
          .seconds = 2.0 * measuring_seconds};
}

double times_measured(double measuring_seconds) {
  return static_cast<double>(nightly_limits(measuring_seconds).passes) + 1.0;
}

std::optional<Tonight> measure_tonight(const TonightInput& input, NightlyRecord& record,
                                       const Console& console, const Interruption& interruption) {
  const Study& study = input.study;
  NeighbourWatch watch(study);
  std::vector<std::string> others = watch.what_spoils();
  if (!others.empty() && !input.judges_beside_other_work) {
    record.input.other_work = std::move(others);
    return std::nullopt;
  }
  const std::vector<CheckedConfiguration> checked = checked_configurations(input.baseline, study);
  NightlyStudy nightly = nightly_study(input, checked);
  nightly.on_look = [&] { watch.look(); };
  const std::string what =
      checked.size() == 1
          ? "the baseline's configuration alone (the profile holds no other)"
          : fmt::format("{} configurations in turns, the baseline's and its canaries", checked.size());
  console.log(fmt::format("{}\nmeasuring {}; run directory {}", study_text(study), what, nightly.run_path));
  Tonight tonight{.run_path = nightly.run_path,
                  .measured = run_nightly_study(nightly, study, input.target, console, interruption),
                  .other_work = {}};
  if (tonight.measured.interrupted) return std::nullopt;
  record.seconds = tonight.measured.measuring_seconds;
  for (const CheckedConfiguration& each : checked)
    record.input.points.push_back(point_tonight(each, tonight.measured, record.input.objective));
  record.input.points.front().rounds_beside = tonight.measured.rounds_beside;
  record.input.beside_failure = tonight.measured.beside_failure;
  compare_rounds(record.input.points, record.input.objective);
  for (std::string& other : disturbances_of(watch).all()) others.push_back(std::move(other));
  add_other_work(nightly.run_path, others);
  if (input.judges_beside_other_work) tonight.other_work = others;
  if (input.judges_beside_other_work && !others.empty())
    console.warn(fmt::format("judged although other work ran beside it: {}", fmt::join(others, ", ")));
  else
    record.input.other_work = std::move(others);
  return tonight;
}

}  // namespace moetune
