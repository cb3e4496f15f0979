#include "tuner/commands/nightly_study.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tuner/commands/baseline_program.h"
#include "tuner/commands/study_requests.h"
#include "tuner/json_facts.h"
#include "tuner/searchers/given_first.h"
#include "tuner/targets/arrivals.h"
#include "tuner/terminal.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

RunRequest request_of(const NightlyStudy& nightly, const Study& study) {
  RunRequest request = run_request_of(study, nightly.default_configuration);
  request.space = nightly.space ? nightly.space->name : "the baseline and its canaries";
  request.space_hash = nightly.space ? nightly.space->hash() : "";
  request.searcher = nightly.space ? "nsga2" : "given";
  request.objectives = nightly.baseline->objectives;
  request.seed = nightly.baseline->seed;
  request.gate = nightly.baseline->gate;
  request.command = nightly.command_line;
  return request;
}

// Numbers of the trials of given configurations, the default's first.
std::vector<std::int64_t> given_trials(const NightlyStudy& nightly, std::span<const Trial> trials) {
  std::vector<std::int64_t> numbers;
  for (const Trial& trial : trials) {
    const bool is_given = trial.configuration == nightly.default_configuration ||
                          std::ranges::find(nightly.given, trial.configuration) != nightly.given.end();
    if (is_given && trial.outcome == Outcome::ok) numbers.push_back(trial.number);
  }
  return numbers;
}

}  // namespace

SearchSpace space_of_knobs(SearchSpace space, const std::vector<std::string>& names,
                           const Configuration& configuration) {
  for (Parameter& parameter : space.parameters) {
    if (std::ranges::find(names, parameter.name) != names.end()) continue;
    const auto value = configuration.values.find(parameter.name);
    if (value == configuration.values.end()) continue;
    parameter.values = {value->second};
    parameter.active_if.clear();
    parameter.when_inactive.clear();
  }
  return space;
}

NightlyStudyResult run_nightly_study(const NightlyStudy& nightly, const Study& study,
                                     const TargetOptions& target, const Console& console,
                                     const Interruption& interruption) {
  const std::vector<Objective> objectives =
      objectives_named(fmt::format("{}", fmt::join(nightly.baseline->objectives, ",")));
  const AccuracyGate& gate = gate_named(nightly.baseline->gate);
  std::unique_ptr<Searcher> search;
  LegalSet legal;
  if (nightly.space) {
    legal = legal_configurations(*nightly.space, study.kind_of_objection);
    search = make_searcher("nsga2", {*nightly.space, legal, objectives, nightly.baseline->seed});
  }
  std::vector<Configuration> first = nightly.given;
  first.insert(first.end(), nightly.front.begin(), nightly.front.end());
  GivenFirstSearcher searcher(std::move(first), std::move(search));
  const RunDirectory run =
      RunDirectory::create(nightly.run_path, request_of(nightly, study), to_json_value(study.hardware));
  TrialLog log(run.trials_file());
  const Study in_folder = with_folder(study, std::filesystem::absolute(run.path()).string());
  // Requests come as fast as they did for the baseline, whatever this box completes tonight.
  for (const Evidence& evidence : nightly.baseline->recommended.evidence)
    if (evidence.metric == "arrivals_per_s")
      if (const std::string problem = write_arrival_rate(run.path(), {evidence.value, ""}); !problem.empty())
        console.warn(problem);

  Progress progress(stderr, terminal_of(2), console.quiet);
  TuneRequest request =
      tune_request_of(study, nightly.default_configuration, objectives, nightly.baseline->seed, progress);
  request.acceptable = [&](const Trial& trial) {
    return judge(trial.metrics, gate).verdict == GateVerdict::met;
  };
  request.budget_seconds = nightly.budget_seconds;
  RunReport asked = read_run(run.path());  // as the conclusion will read it
  request.finalists = [&](std::span<const Trial> trials) {
    std::vector<std::int64_t> numbers = given_trials(nightly, trials);
    if (nightly.space) {
      ChoiceInput input = choice_input(asked);
      input.trials = trials;
      for (const std::int64_t number : finalists(input))
        if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
    }
    return numbers;
  };
  // Without a search a turn is all the timing there is.
  request.timing_setup =
      timing_setup(in_folder, nightly.space ? turn_share * nightly.timing_seconds : nightly.timing_seconds);
  request.on_status = [&](const TuneStatus& status) {
    if (nightly.on_look) nightly.on_look();
    progress.show(status);
  };
  std::optional<BaselineProgram> beside;
  if (!nightly.baseline_program.empty()) {
    TrialRunnerSettings settings = target.runner_settings(in_folder, nightly.timing_seconds);
    settings.setup = request.timing_setup;
    settings.on_message = request.on_message;
    beside.emplace(nightly.baseline_program, std::move(settings),
                   Configuration{nightly.baseline->recommended.configuration}, objectives.front());
    request.beside_pass = [&](std::int64_t, std::uint64_t seed) {
      return beside->measure(seed, interruption);
    };
  }
  if (!nightly.space) request.final_limits = nightly.limits;
  const TuneResult tuned =
      tune(request, searcher, log, target.runner_settings(in_folder, nightly.timing_seconds), interruption);
  progress.clear();

  NightlyStudyResult result;
  result.interrupted = tuned.stop == TuneResult::Stop::interrupted;
  result.measuring_seconds = tuned.measuring_seconds;
  if (beside) result.rounds_beside = beside->rounds();
  if (beside) result.beside_failure = beside->failure();
  result.conclusion = conclude(run.path(), nightly.baseline->gate);
  const std::vector<std::int64_t> numbers = given_trials(nightly, log.trials());
  result.round = final_round(numbers, std::ssize(log.trials()), log.measured_again(), objectives.front());
  return result;
}

}  // namespace moetune
