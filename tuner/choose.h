// Which configuration to launch with, and why, in words. A pure function of the trials: no engine, no clock.
// Start at choose(); the rules stand above it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/facts/workload.h"
#include "tuner/accuracy_gate.h"
#include "tuner/final_round.h"
#include "tuner/objective.h"
#include "tuner/trial.h"

namespace moetune {

struct ChoiceInput {
  std::span<const Trial> trials;
  AccuracyGate gate;
  std::span<const Objective> objectives;  // the first one is what "best" means; at least one
  Configuration default_configuration;
  // Parameters that must keep the default's value where accuracy is not known; see accuracy_parameters().
  std::vector<std::string> accuracy_parameters;
  std::optional<Slo> slo;                      // service level; empty: none
  bool slo_required = false;                   // what misses it is never recommended
  std::span<const Trial> measured_again = {};  // of final rounds
};

// What the contract keeps at the model's own while accuracy is unknown: the number
// of experts and all number types.
std::vector<std::string> accuracy_parameters();

// The default's values in all of them: what may be recommended while accuracy is not known.
bool keeps_accuracy(const Configuration& configuration, const Configuration& default_configuration);

struct Recommendation {
  enum class Verdict : std::uint8_t {
    replaced,            // something better than the default, beyond doubt
    default_stays,       // nothing better was measured
    indeterminate,       // something looks better, but the intervals overlap: the default stays
    no_default,          // the default could not be measured: the best of the rest, compared with nothing
    nothing_meets_gate,  // no recommendation
    nothing_measured,    // no recommendation: every trial failed
    nothing_keeps_slo,   // no recommendation: all that is acceptable misses the service level, which is
                         // required
  };
  Verdict verdict = Verdict::nothing_measured;
  std::optional<std::int64_t> trial;  // recommended; a number of the log
  std::string reason;                 // sentences for a person
  std::optional<std::int64_t> runner_up;
  std::string why_not_runner_up;
  // What the verdict rests on; empty: on the search alone, as `caution` then says wherever a final round
  // could tell more.
  std::optional<FinalRound> final_round = std::nullopt;
  // Another study of the same may recommend another configuration, whose first objective then probably lies
  // within this share of the recommended one's: the 1 % within which simplicity decides, what the round could
  // not tell, and what the second half of the search still found. Empty: no final round.
  std::optional<double> tolerance = std::nullopt;
  std::string caution = "";
};

// Who is worth measuring again before a verdict: the default first, then what the search alone would
// recommend, then the best of what is acceptable, as far as they have a chance. The default alone is
// measured again too: a profile without rounds could never be checked (nightly_check.h). Empty: nothing is
// acceptable, or the first objective does not depend on time.
std::vector<std::int64_t> finalists(const ChoiceInput& input);

// 0. Where a final round holds all finalists, they alone compete, with its times; a finalist that failed in
// it is not
//    acceptable. Otherwise everything competes as the search measured it, and `caution` says so.
// 1. Of several trials of one configuration the last ok one counts.
// 2. Acceptable is what meets the gate. Where accuracy is unknown (synthetic weights) only configurations
// that agree
//    with the default in all accuracy_parameters are acceptable, unless the gate is "none".
//    What is known to miss the service level is not acceptable either, unless nothing acceptable keeps it;
//    where it is required, nothing is recommended then.
// 3. The default configuration is replaced only by one whose interval is better than the default's as a
// whole; with a final round: whose paired ratio to the default has an interval beyond 1 as a whole.
// 4. Of those that are, and lie within 1 % of the best, the one with the fewest changes from the default
// wins; then
//    the better value; then the lower trial number. The default itself has the fewest: what is better by less
//    than 1 % does not replace it.
// 5. Where something looks better and rule 3 does not hold, the verdict is "indeterminate", with what would
// end it.
Recommendation choose(const ChoiceInput& input);

}  // namespace moetune
