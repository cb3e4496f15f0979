#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/counter_rng.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {
using Clock = std::chrono::steady_clock;

// A searcher that only repeats itself has nothing left; without a limit it would do so forever.
constexpr int most_repeats = 1000;

// Where a sitting stands, and what is shown of it.
class Standing {
 public:
  explicit Standing(const TuneRequest& request) : request_(request) {
    status_.max_trials = request.max_trials;
    if (request.legal_configurations) {
      // One more than the legal set: the default configuration need not be in it.
      const std::int64_t most = *request.legal_configurations + 1;
      status_.max_trials = std::min(status_.max_trials.value_or(most), most);
    }
  }

  double measuring_seconds() const { return measuring_seconds_; }

  void begin_trial(std::int64_t number) {
    status_.trial = number;
    status_.doing.clear();
    trial_began_ = Clock::now();
    is_running_ = true;
    show();
  }

  void end_trial(const Trial& trial) {
    is_running_ = false;
    measuring_seconds_ += trial.seconds;
    ++status_.trials_done;
    if (trial.outcome != Outcome::infeasible) ++measured_;
    improve_best(trial);
  }

  void doing(const std::string& words) {
    status_.doing = words;
    show();
  }

  void show() {
    if (!request_.on_status) return;
    const double running =
        is_running_ ? std::chrono::duration<double>(Clock::now() - trial_began_).count() : 0.0;
    status_.seconds_left.reset();
    if (request_.budget_seconds)
      status_.seconds_left = *request_.budget_seconds - measuring_seconds_ - running;
    if (status_.max_trials && measured_ > 0) {
      const double mean = measuring_seconds_ / static_cast<double>(measured_);
      const double by_count = mean * static_cast<double>(*status_.max_trials - status_.trials_done) - running;
      status_.seconds_left = std::min(status_.seconds_left.value_or(by_count), by_count);
    }
    if (status_.seconds_left) status_.seconds_left = std::max(*status_.seconds_left, 0.0);
    request_.on_status(status_);
  }

 private:
  void improve_best(const Trial& trial) {
    const auto values = values_of(trial, request_.objectives);
    if (!values || values->empty() || (request_.acceptable && !request_.acceptable(trial))) return;
    if (best_ && *best_ <= values->front()) return;
    best_ = values->front();
    const std::string& metric = request_.objectives.front().metric;
    status_.best = fmt::format("{:.4g} {} (trial {})", trial.metrics.at(metric).value, metric, trial.number);
  }

  const TuneRequest& request_;
  TuneStatus status_;
  double measuring_seconds_ = 0.0;
  std::int64_t measured_ = 0;
  std::optional<double> best_;
  Clock::time_point trial_began_;
  bool is_running_ = false;
};

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

std::optional<TuneResult> used_up(const TuneRequest& request, std::int64_t trials, double measuring_seconds) {
  using Stop = TuneResult::Stop;
  if (request.max_trials && trials >= *request.max_trials)
    return TuneResult{Stop::max_trials, fmt::format("{} trials were asked for and done", *request.max_trials),
                      measuring_seconds};
  if (request.budget_seconds && measuring_seconds >= *request.budget_seconds)
    return TuneResult{
        Stop::budget,
        fmt::format("the budget of {:.4g} s of measuring time is spent", *request.budget_seconds),
        measuring_seconds};
  return std::nullopt;
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

}  // namespace

std::uint64_t trial_seed(std::uint64_t study_seed, std::int64_t trial) {
  return CounterRng(study_seed, RngStage::trial_seed).bits(static_cast<std::uint64_t>(trial)) >> 11;
}

TuneResult tune(const TuneRequest& request, Searcher& searcher, TrialLog& log,
                TrialRunnerSettings runner_settings, const Interruption& interruption) {
  using Stop = TuneResult::Stop;
  Standing standing(request);
  const auto say = [&](const std::string& line) {
    if (request.on_message) request.on_message(line);
  };
  if (!log.torn().empty()) say(log.torn());
  const std::size_t logged = log.trials().size();
  if (logged > 0) say(fmt::format("going on after {} trials", logged));

  runner_settings.on_progress = [&](const std::string& words) { standing.doing(words); };
  runner_settings.on_tick = [&] { standing.show(); };
  runner_settings.on_message = request.on_message;
  TrialRunner runner(std::move(runner_settings), interruption);

  std::map<Configuration, std::size_t> known;  // to the number of its trial
  int repeats = 0;
  while (true) {
    const std::size_t index = known.size();
    const auto number = static_cast<std::int64_t>(index);
    const bool is_replay = index < logged;
    if (interruption.requested()) return {Stop::interrupted, "interrupted", standing.measuring_seconds()};
    if (!is_replay)
      if (auto stop = used_up(request, number, standing.measuring_seconds())) return *stop;

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
      return {Stop::searcher_done, "the searcher has nothing left to try", standing.measuring_seconds()};
    }
    repeats = 0;

    if (is_replay) {
      insist_on_same(log.trials()[index], *asked, request, log.file());
    } else {
      standing.begin_trial(number);
      const auto trial = new_trial(request, runner, number, *asked);
      if (!trial) return {Stop::interrupted, "interrupted", standing.measuring_seconds()};
      log.append(*trial);
    }
    known.emplace(*asked, index);
    searcher.tell(log.trials()[index]);
    standing.end_trial(log.trials()[index]);
    standing.show();
  }
}

}  // namespace moetune
