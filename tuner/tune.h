// The search loop: default configuration, then ask, measure, log, tell, until something is used up; then the
// final round (final_round.h). Replaying a log and going on with it is the same loop: what the log holds is
// told instead of measured. Start at tune().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/final_round.h"
#include "tuner/objective.h"
#include "tuner/searcher.h"
#include "tuner/trial_log.h"
#include "tuner/trial_runner.h"

namespace moetune {

// What a person watching wants to know; see progress.h.
struct TuneStatus {
  std::int64_t trial = 0;  // the one running now
  std::int64_t trials_done = 0;
  std::optional<std::int64_t> max_trials;  // the smaller of the limit and all there are, when there is one
  // "3.21 tpot_ms (trial 7)"; in the final round "trial 7, 14 % under trial 0 (95 % interval 12 % to 16 %)",
  // as soon as there are passes enough; empty: none yet.
  std::string best;
  std::optional<double> seconds_left;  // of the budget, or by the time of the trials so far
  std::string doing;                   // "measuring 12/40"
  std::int64_t final_done = 0;         // of the final round, once it has begun
  std::int64_t final_most = 0;         // 0: it has not begun
};

struct TuneRequest {
  Configuration default_configuration;  // trial 0, always a contender
  // Why a configuration cannot run at all (memory plan, hardware); recorded as infeasible without a worker.
  // May be empty.
  std::function<std::optional<std::string>(const Configuration&)> objection;
  std::span<const Objective> objectives;
  // Does a trial pass the gate? Only for the "best so far" that is shown. May be empty: every ok trial does.
  std::function<bool(const Trial&)> acceptable;
  std::uint64_t seed = 1;  // of the study; each trial's own comes from it and its number
  std::optional<std::int64_t>
      max_trials;  // with the default configuration and the trials of earlier sittings
  std::optional<double>
      budget_seconds;  // of measuring time, with that of earlier sittings; no trial starts after it. A share
                       // of it is kept for the final round, if there is to be one
  std::optional<std::int64_t>
      different_configurations;  // that there are to try, the default one among them; for the time left
  // Which trials of the search the final round measures again; a pure function. May be empty: no final round.
  std::function<std::vector<std::int64_t>(std::span<const Trial>)> finalists;
  nlohmann::json timing_setup;  // for its workers
  // How long it may be; empty: as the budget allows.
  std::optional<FinalLimits> final_limits = {};
  // What else is to be measured in turns with the finalists: called once for each pass, before one and after
  // the next (there and back), with the seed of its turns, while no worker is there. False: interrupted. May
  // be empty.
  std::function<bool(std::int64_t pass, std::uint64_t seed)> beside_pass = {};
  // Which trials are then run once more to record where their time goes, the most important first, each in a
  // process of its own: a pure function of the search's trials and of those measured again. May be empty:
  // none.
  std::function<std::vector<std::int64_t>(std::span<const Trial> trials,
                                          std::span<const Trial> measured_again)>
      to_record = {};
  nlohmann::json recording_setup = {};                      // for its workers
  bool stops_before_final_round = false;                    // it is left to a later call over the same log
  std::function<void(const TuneStatus&)> on_status;         // may be empty
  std::function<void(const std::string& line)> on_message;  // warnings, what workers say; may be empty
  std::function<void(const std::string& line)> on_remark = {};  // what a quiet run leaves out; may be empty
};

struct TuneResult {
  enum class Stop : std::uint8_t { searcher_done, max_trials, budget, interrupted };
  Stop stop = Stop::searcher_done;
  std::string why;                 // in words, for the report
  double measuring_seconds = 0.0;  // over all sittings
};

// Runs until it stops; the trials are in the log. To be called from the main thread: workers end with the
// thread that started them. A fresh searcher must be given: it is asked and told from the start. Throws
// InputError when what it asks differs from what the log holds (naming trial and both configurations), and
// whatever TrialRunner and TrialLog throw. runner_settings' callbacks are set by tune().
TuneResult tune(const TuneRequest& request, Searcher& searcher, TrialLog& log,
                TrialRunnerSettings runner_settings, const Interruption& interruption);

// The share of the budget that is kept for the final round: on tiny-moe four finalists take 9 turns each in a
// fifth of the default budget.
inline constexpr double final_share = 0.25;

// What may be added to the budget for recordings; the first one is always made.
inline constexpr double most_recording_share = 0.15;

// Seed of one trial: a function of study seed and trial number alone. Below 2^53, so that every JSON reader
// keeps it.
std::uint64_t trial_seed(std::uint64_t study_seed, std::int64_t trial);
// Of a turn of a final round: the same for all finalists of a pass, so that it cannot tell them apart.
std::uint64_t turn_seed(std::uint64_t study_seed, const FinalTurn& turn);

}  // namespace moetune
