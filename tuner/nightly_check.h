// Does a profile's choice still keep its promise tonight? Its configuration and a few canaries were measured
// again; what that says is a pure function of then and now. Start at judge_nightly(); the rules stand above it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/accuracy_gate.h"
#include "tuner/objective.h"
#include "tuner/staleness.h"
#include "tuner/trial.h"

namespace moetune {

// How much worse something is now than then, as a share with its 95 % interval: 0.05 is 5 % slower. Of a
// metric where larger is better: the share by which the reciprocal grew.
struct Slowdown {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};

// Of two measurements that each have an interval over 6 or more processes; empty where one has none or is not
// above 0. The two are
// independent: on the logarithm their half widths add up as squares, each side by itself.
std::optional<Slowdown> slowdown_between(const Measurement& then, const Measurement& now, bool larger_is_better);

// "7.2 % slower (95 % interval 5.1 % to 9.4 %)", "0.4 % slower (95 % interval -1.9 % to 2.8 %)"
std::string slowdown_text(const Slowdown& slowdown);

enum class NightlyRole : std::uint8_t { baseline, standard, runner_up };
std::string_view name_of(NightlyRole role);  // "baseline", "default", "runner-up"

// One configuration of the profile, then and now.
struct NightlyPoint {
  NightlyRole role = NightlyRole::baseline;
  Configuration configuration;
  Metrics then;
  Metrics now;
  std::optional<Slowdown> slowdown;  // of the objective
  // Now: its objective over the baseline's in the same pass; empty: it is the baseline, or one of them failed.
  std::optional<Measurement> over_baseline;
  std::string failure;  // "crashed: ..."; empty: it was measured
};

enum class NightlyVerdict : std::uint8_t { ok, regression, indeterminate, stale };
std::string_view name_of(NightlyVerdict verdict);

struct NightlyInput {
  double threshold = 0.05;           // the slowdown that must be found, a share
  Objective objective;               // the profile's first
  AccuracyGate gate;                 // the profile's
  Staleness staleness;               // of the profile, here
  std::vector<NightlyPoint> points;  // the baseline first; empty: nothing was measured
  std::vector<std::string> other_work;  // what else ran meanwhile, by name; empty: nothing
};

struct NightlyResult {
  NightlyVerdict verdict = NightlyVerdict::indeterminate;
  std::string reason;                // one or two sentences
  std::vector<std::string> remarks;  // what a person should know beside it
};

// 1. A profile of another device, size or model cannot be compared: stale, whatever was measured.
// 2. Other work on the machine: indeterminate, with its name. Times taken beside it prove nothing either way.
// 3. The baseline's configuration fails now, or misses the gate that it met: regression.
// 4. The slowdown's interval lies above half the threshold: regression. Where driver, CUDA or operating system
//    are not those of the profile it is the profile that is stale; so it is when everything became faster by
//    that much under them. (Another build is what a nightly check is for: no excuse.)
// 5. A canary that keeps the accuracy is now better than the baseline by more than half the threshold beyond
//    doubt: stale, the choice does not hold any more.
// 6. The interval lies below the threshold: ok. Otherwise indeterminate.
NightlyResult judge_nightly(const NightlyInput& input);

// What a profile holds about one of its points, as metrics.
Metrics metrics_of(const ProfilePoint& point);

}  // namespace moetune
