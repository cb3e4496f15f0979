#include "tuner/tune.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/counted.h"
#include "tuner/counter_rng.h"
#include "tuner/final_round.h"
#include "tuner/standing.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {
// A searcher that only repeats itself has nothing left; without a limit it would do so forever.
constexpr int most_repeats = 1000;

// A log can only be gone on with by the search that wrote it.
void insist_on_same(const Trial& logged, const Configuration& asked, const TuneRequest& request,
                    const std::string& file) {
  const std::string where = fmt::format("{}:{}", file, logged.number + 1);
  if (logged.configuration != asked)
    throw InputError(where,
                     fmt::format("trial {} is '{}', but the search asks for '{}'", logged.number,
                                 logged.configuration.key(), asked.key()),
                     "the log of the same space, searcher, objectives and seed");
  const std::uint64_t seed = trial_seed(request.seed, logged.number);
  if (logged.seed != seed)
    throw InputError(where,
                     fmt::format("trial {} has seed {}, but seed {} of this study gives {}", logged.number,
                                 logged.seed, request.seed, seed),
                     "the log of the same seed");
}

// Of the budget, what the search may spend.
std::optional<double> search_budget(const TuneRequest& request) {
  if (!request.budget_seconds) return std::nullopt;
  return request.finalists ? (1.0 - final_share) * *request.budget_seconds : *request.budget_seconds;
}

// Only the search's own time counts: a sitting that is resumed in or after the final round must stop at the
// same trial.
std::optional<TuneResult> used_up(const TuneRequest& request, std::int64_t trials, double search_seconds) {
  using Stop = TuneResult::Stop;
  if (request.max_trials && trials >= *request.max_trials)
    return TuneResult{
        Stop::max_trials,
        fmt::format("{} asked for and done", counted(*request.max_trials, "trial was", "trials were"))};
  const std::optional<double> budget = search_budget(request);
  if (!budget || search_seconds < *budget) return std::nullopt;
  if (request.finalists)
    return TuneResult{
        Stop::budget,
        fmt::format("the search's {:.4g} s of the budget of {:.4g} s of measuring time are spent", *budget,
                    *request.budget_seconds)};
  return TuneResult{Stop::budget, fmt::format("the budget of {:.4g} s of measuring time is spent", *budget)};
}

// One that the log does not hold yet. Empty: interrupted.
std::optional<Trial> new_trial(const TuneRequest& request, TrialRunner& runner, std::int64_t number,
                               const Configuration& configuration) {
  const std::uint64_t seed = trial_seed(request.seed, number);
  const auto objection = request.objection ? request.objection(configuration) : std::nullopt;
  if (!objection) return runner.run(number, configuration, seed);
  return Trial{.number = number,
               .configuration = configuration,
               .outcome = Outcome::infeasible,
               .reason = *objection,
               .metrics = {},
               .seed = seed,
               .seconds = 0.0,
               .started = utc_now()};
}

// Asks and measures until the search is over. The trials are in the log.
TuneResult search(const TuneRequest& request, Searcher& searcher, TrialLog& log, TrialRunner& runner,
                  Standing& standing, const Interruption& interruption) {
  using Stop = TuneResult::Stop;
  const std::size_t logged = log.trials().size();
  std::map<Configuration, std::size_t> known;  // to the number of its trial
  int repeats = 0;
  while (true) {
    const std::size_t index = known.size();
    const auto number = static_cast<std::int64_t>(index);
    const bool is_replay = index < logged;
    if (interruption.requested()) return {Stop::interrupted, "interrupted"};
    if (!is_replay)
      if (auto stop = used_up(request, number, standing.search_seconds())) return *stop;

    const std::optional<Configuration> asked = index == 0 ? request.default_configuration : searcher.ask();
    if (asked && known.contains(*asked) && ++repeats <= most_repeats) {
      searcher.tell(log.trials()[known.at(*asked)]);
      continue;
    }
    if (!asked || repeats > most_repeats) {
      if (is_replay)
        throw InputError(log.file(),
                         fmt::format("holds {} trials, but the search ends after {}", logged, number),
                         "the log of the same space, searcher, objectives and seed");
      return {Stop::searcher_done, "the searcher has nothing left to try"};
    }
    repeats = 0;

    if (is_replay) {
      insist_on_same(log.trials()[index], *asked, request, log.file());
    } else {
      standing.begin_trial(number);
      const auto trial = new_trial(request, runner, number, *asked);
      if (!trial) return {Stop::interrupted, "interrupted"};
      log.append(*trial);
    }
    known.emplace(*asked, index);
    searcher.tell(log.trials()[index]);
    standing.end_trial(log.trials()[index]);
    standing.show();
  }
}

FinalLimits limits_of_budget(const TuneRequest& request, double search_seconds) {
  FinalLimits limits;
  if (!request.budget_seconds) return limits;
  limits.load_seconds = most_load_share * *request.budget_seconds;
  limits.seconds = std::max(final_share * *request.budget_seconds, *request.budget_seconds - search_seconds);
  return limits;
}

// Measures the finalists again, as far as the log does not hold it yet. False: interrupted.
bool measure_again(const TuneRequest& request, TrialLog& log, const TrialRunnerSettings& settings,
                   Standing& standing, const Interruption& interruption) {
  const std::vector<std::int64_t> finalists = request.finalists(log.trials());
  const std::int64_t after = std::ssize(log.trials());
  for (const Trial& trial : log.measured_again())
    standing.add_turn(trial, trial.turn->after == after && trial.turn->finalists == finalists);
  if (finalists.empty()) return true;
  const FinalLimits limits =
      request.final_limits.value_or(limits_of_budget(request, standing.search_seconds()));
  standing.begin_final_round(std::ssize(finalists), limits);
  const auto show_standing = [&] {
    if (const auto round = final_round(finalists, after, log.measured_again(), request.objectives.front()))
      standing.improve_best(*round);
    standing.show();
  };
  show_standing();
  std::optional<TrialRunner> runner;
  std::int64_t pass = -1;
  std::uint64_t seed = 0;
  const auto measure_beside = [&] {
    runner.reset();
    return !request.beside_pass || request.beside_pass(pass, seed);
  };
  while (const auto next = next_turn(finalists, after, log.measured_again(), limits)) {
    if (interruption.requested()) return false;
    standing.begin_trial(next->trial);
    // A runner for each pass: its worker ends with it. Finalists that share a process share its luck, which
    // then cancels in their ratio; passes of their own process are independent draws.
    if (next->turn.pass != pass) {
      if (pass % 2 == 1 && !measure_beside()) return false;
      runner.reset();
      pass = next->turn.pass;
      seed = turn_seed(request.seed, next->turn);
      if (pass % 2 == 0 && !measure_beside()) return false;
      runner.emplace(settings, interruption);
    }
    auto trial = runner->run(next->trial, log.trials()[static_cast<std::size_t>(next->trial)].configuration,
                             turn_seed(request.seed, next->turn));
    if (!trial) return false;
    trial->turn = next->turn;
    standing.add_turn(log.append(*trial), true);
    show_standing();
  }
  if (pass % 2 == 1 && !measure_beside()) return false;
  FinalLimits without_loading = limits;
  without_loading.load_seconds.reset();
  if (request.on_message && next_turn(finalists, after, log.measured_again(), without_loading))
    request.on_message(fmt::format(
        "the final round ends early: to load the finalists' weights once more would take it beyond "
        "{:.0f} % of the budget",
        100.0 * most_load_share));
  return true;
}

// Records where the time goes, as far as the log does not hold it yet. False: interrupted.
bool record(const TuneRequest& request, TrialLog& log, const TrialRunnerSettings& settings,
            Standing& standing, const Interruption& interruption) {
  const std::vector<std::int64_t> wanted = request.to_record(log.trials(), log.measured_again());
  double seconds = 0.0;
  double count = 0.0;
  for (const std::int64_t number : wanted) {
    if (std::ranges::find(log.recordings(), number, &Trial::number) != log.recordings().end()) continue;
    if (interruption.requested()) return false;
    const double with_this_one = count > 0.0 ? seconds * (count + 1.0) / count : 0.0;
    if (request.budget_seconds && with_this_one > most_recording_share * *request.budget_seconds) {
      if (request.on_message)
        request.on_message(
            fmt::format("where the time goes is recorded of {:.0f} of {} configurations: more would take "
                        "over {:.0f} % of the budget",
                        count, wanted.size(), 100.0 * most_recording_share));
      return true;
    }
    standing.begin_trial(number);
    TrialRunner runner(settings, interruption);
    auto trial = runner.run(number, log.trials()[static_cast<std::size_t>(number)].configuration,
                            trial_seed(request.seed, number));
    if (!trial) return false;
    trial->is_recording = true;
    seconds += log.append(*trial).seconds;
    count += 1.0;
    if (request.on_message && !trial->reason.empty())
      request.on_message(
          fmt::format("where the time of trial {} goes is not known: {}", number, trial->reason));
    if (trial->outcome == Outcome::infeasible) return true;  // nothing can be recorded here
  }
  return true;
}

}  // namespace

std::uint64_t turn_seed(std::uint64_t study_seed, const FinalTurn& turn) {
  const CounterRng random(study_seed, RngStage::final_round_seed, static_cast<std::uint32_t>(turn.after));
  return random.bits(static_cast<std::uint64_t>(turn.pass)) >> 11;
}

std::uint64_t trial_seed(std::uint64_t study_seed, std::int64_t trial) {
  return CounterRng(study_seed, RngStage::trial_seed).bits(static_cast<std::uint64_t>(trial)) >> 11;
}

TuneResult tune(const TuneRequest& request, Searcher& searcher, TrialLog& log,
                TrialRunnerSettings runner_settings, const Interruption& interruption) {
  Standing standing(request);
  const auto say = [&](const std::string& line) {
    if (request.on_message) request.on_message(line);
  };
  if (!log.torn().empty()) say(log.torn());
  if (!log.trials().empty() && request.on_remark)
    request.on_remark("going on after " + counted(log.trials().size(), "trial") +
                      (log.measured_again().empty()
                           ? ""
                           : " and " + counted(log.measured_again().size(), "turn") + " of final rounds"));

  runner_settings.on_progress = [&](const std::string& words) { standing.doing(words); };
  runner_settings.on_tick = [&] { standing.show(); };
  runner_settings.on_message = request.on_message;
  TuneResult result;
  {
    TrialRunner runner(runner_settings, interruption);  // its worker must be gone before the final round
    result = search(request, searcher, log, runner, standing, interruption);
  }
  if (result.stop != TuneResult::Stop::interrupted && request.finalists &&
      !request.stops_before_final_round) {
    runner_settings.seat.reset();  // every pass has a process of its own
    runner_settings.setup = request.timing_setup;
    if (!measure_again(request, log, runner_settings, standing, interruption))
      result = {TuneResult::Stop::interrupted, "interrupted in the final round"};
  }
  if (result.stop != TuneResult::Stop::interrupted && request.to_record &&
      !request.stops_before_final_round) {
    runner_settings.seat.reset();
    runner_settings.setup = request.recording_setup;
    if (!record(request, log, runner_settings, standing, interruption))
      result = {TuneResult::Stop::interrupted, "interrupted while where the time goes was recorded"};
  }
  result.measuring_seconds = standing.measuring_seconds();
  return result;
}

}  // namespace moetune
