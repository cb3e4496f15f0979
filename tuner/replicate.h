// One configuration, timed anew in several fresh processes: what a launch tomorrow can expect, not how well
// one process is known. Start at measure_in_processes(); how their numbers become one: over_processes() in
// statistics.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/interruption.h"
#include "tuner/trial.h"
#include "tuner/trial_runner.h"

namespace moetune {

struct ReplicationSettings {
  TrialRunnerSettings everything;  // for the first process, which also measures accuracy
  nlohmann::json timing_setup;     // for the others
  int processes = 0;
  double most_seconds =
      0.0;  // for the others together: no further one starts after it, but the second always does
};

struct Replication {
  Trial trial;                     // timed metrics over all processes, the others from the first
  std::vector<Metrics> processes;  // timed metrics of each
};

// The first process that fails decides the outcome. Empty: interrupted. Throws as TrialRunner::run().
std::optional<Replication> measure_in_processes(const ReplicationSettings& settings,
                                                const Configuration& configuration, std::uint64_t seed,
                                                const Interruption& interruption);

// Those that depend on when they were measured.
Metrics timed_part(const Metrics& metrics);

// Each metric over the processes that have it: all of them or none, otherwise it is left out. At least one
// process.
Metrics over_processes(std::span<const Metrics> processes);

}  // namespace moetune
