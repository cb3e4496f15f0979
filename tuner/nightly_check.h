// Does a profile's choice still keep its promise tonight? Its configuration and a few canaries were measured
// again; what that says is a pure function of then and now. Start at judge_nightly(); the rules stand above
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/accuracy_gate.h"
#include "tuner/objective.h"
#include "tuner/slowdown.h"
#include "tuner/staleness.h"
#include "tuner/trial.h"

namespace moetune {

enum class NightlyRole : std::uint8_t { baseline, standard, runner_up };
std::string_view name_of(NightlyRole role);  // "baseline", "default", "runner-up"

// One configuration of the profile, then and now.
struct NightlyPoint {
  NightlyRole role = NightlyRole::baseline;
  Configuration configuration;
  Metrics then;
  Metrics now;
  // The objective in each pass of the final round that the profile rests on, and in each of tonight's. Passes
  // of one night are the same for all points. Empty: it was not in one.
  std::vector<double> rounds_then;
  std::vector<double> rounds_now;
  // The same as rounds_now by the program of the baseline, in a process of its own in each pass. Empty: it
  // was not asked for, or could not be measured.
  std::vector<double> rounds_beside;
  std::string failure;  // "crashed: ..."; empty: it was measured

  // As compare_rounds() finds them; empty: there are no rounds to compare.
  std::optional<Slowdown> slowdown;       // of the objective: now against rounds_beside, or else then
  std::optional<Slowdown> since_profile;  // where that is against rounds_beside: now against then
  std::optional<Slowdown> over_baseline;  // tonight, against the baseline in the same pass
};

// Where more is better a slowdown is of the reciprocal: 0.05 is a rate that fell from 105 to 100.
void compare_rounds(std::vector<NightlyPoint>& points, const Objective& objective);

enum class NightlyVerdict : std::uint8_t { ok, regression, indeterminate, stale };
std::string_view name_of(NightlyVerdict verdict);

struct NightlyInput {
  double threshold = 0.05;                   // the slowdown that must be found, a share
  Objective objective;                       // the profile's first
  AccuracyGate gate;                         // the profile's
  Staleness staleness;                       // of the profile, here
  std::vector<NightlyPoint> points;          // the baseline first; empty: nothing was measured
  std::vector<std::string> other_work;       // what else ran meanwhile, by name; empty: nothing
  std::vector<std::string> other_work_then;  // the same beside the baseline, as its profile says
  std::string beside_failure;                // why there are no rounds_beside although they were asked for
};

struct NightlyResult {
  NightlyVerdict verdict = NightlyVerdict::indeterminate;
  std::string reason;                // one or two sentences
  std::vector<std::string> remarks;  // what a person should know beside it
};

// 1. A profile of another device, size or model cannot be compared: stale, whatever was measured.
// 2. Other work on the machine: indeterminate, with its name. Times taken beside it prove nothing either way.
//    Where the baseline's program was measured in the same passes the slowdown is against it: the night's
//    mood and the machine's software are then the same for both, and everything below is about this program.
//    Otherwise other work beside the baseline leaves its times as worthless: indeterminate, unless rule 3
//    speaks.
// 3. The baseline's configuration fails now, or misses the gate that it met: regression.
// 4. The slowdown's interval lies above half the threshold: regression. Where driver, CUDA or operating
// system
//    are not those of the profile it is the profile that is stale; so it is when everything became faster by
//    that much under them. (Another build is what a nightly check is for: no excuse.)
// 5. A canary that keeps the accuracy is now better than the baseline by more than half the threshold beyond
//    doubt: stale, the choice does not hold any more.
// 6. The interval lies below the threshold: ok. Otherwise indeterminate.
NightlyResult judge_nightly(const NightlyInput& input);

}  // namespace moetune
