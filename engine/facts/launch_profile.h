// What a search came to, to be used later and elsewhere: which configuration to launch with, on which box,
// for which model and workload, and everything that was known when it was chosen. Read and written by
// tuner/launch_profile.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/facts/hardware_fingerprint.h"
#include "engine/facts/workload.h"

namespace moetune {

// One metric of one configuration: the number, how sure it is and where it comes from.
struct Evidence {
  std::string metric;  // "tpot_ms": the unit is in the name
  double value = 0.0;
  std::optional<double> low;  // 95 % interval
  std::optional<double> high;
  std::optional<double> p99;
  std::int64_t n = 0;               // samples
  std::string origin = "measured";  // or predicted, extrapolated
  std::string stopped;              // why measuring ended
  std::int64_t processes = 1;       // in how many it was measured anew
};

// One configuration with its evidence.
struct ProfilePoint {
  std::int64_t trial = 0;                            // number in the run's trials.jsonl
  std::map<std::string, std::string> configuration;  // knob -> value, as `--set` takes them
  std::vector<Evidence> evidence;                    // sorted by metric
  std::vector<double> rounds =
      {};  // the first objective in each pass of the final round; empty: it was not in one
};

// What a running server made of the recommended configuration (moetune confirm).
struct Confirmation {
  std::string measured_at;  // UTC, ISO 8601
  std::string server;       // its URL, and what it calls itself
  std::string model;        // as the server names it
  std::string workload;
  std::string verdict;             // confirmed, refuted, indeterminate
  std::string reason;              // in words
  std::vector<Evidence> evidence;  // sorted by metric
};

struct LaunchProfile {
  static constexpr int schema_version = 1;

  std::string model;
  std::string model_hash;   // of config and weights
  std::string measured_at;  // UTC, ISO 8601: when measuring it began; empty: not known
  HardwareFingerprint hardware;
  std::vector<std::string> other_work;  // that ran beside the measuring, by name; empty: none was seen
  Workload workload;

  ProfilePoint recommended;
  std::string reason;                         // in words
  std::string gate;                           // lossless, int8, int4, none
  std::vector<std::string> objectives;        // the first one is what "best" meant
  std::vector<ProfilePoint> front;            // it was chosen from
  std::optional<ProfilePoint> default_point;  // empty: could not be measured
  std::optional<ProfilePoint> runner_up;
  std::string why_not_runner_up;
  bool synthetic_weights = false;  // accuracy is not known
  // Times of recommended, default and runner-up come from a final round, in turns; 0: each from the search,
  // measured once.
  std::int64_t final_passes = 0;
  // Another study may recommend something else, whose first objective then probably lies within this share of
  // the recommended one's; empty: not known.
  std::optional<double> tolerance;
  // The recommended value of the first objective over the default's, paired within the passes; empty: the
  // default is recommended, or there was no final round.
  std::optional<Evidence> ratio_to_default;

  std::vector<Confirmation> confirmations;  // oldest first

  // How to do it again.
  std::string space;
  std::string space_hash;
  std::string searcher;
  std::uint64_t seed = 1;
};

}  // namespace moetune
