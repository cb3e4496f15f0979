#include "tuner/replicate.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/statistics.h"
#include "tuner/tune.h"

namespace moetune {

std::optional<Replication> measure_in_processes(const ReplicationSettings& settings,
                                                const Configuration& configuration, std::uint64_t seed,
                                                const Interruption& interruption) {
  using Clock = std::chrono::steady_clock;
  Replication replication;
  Clock::time_point begin = Clock::now();
  double spent = 0.0;
  for (int process = 0; process < settings.processes && (process < 2 || spent < settings.most_seconds);
       ++process) {
    TrialRunnerSettings own = settings.everything;
    if (process > 0) own.setup = settings.timing_setup;
    if (own.on_progress)
      own.on_progress = [&, process](const std::string& words) {
        settings.everything.on_progress(
            fmt::format("process {} of {}: {}", process + 1, settings.processes, words));
      };
    // A runner of its own: its worker ends with it, so the next one starts from nothing.
    std::optional<Trial> trial = TrialRunner(std::move(own), interruption)
                                     .run(0, configuration, process == 0 ? seed : trial_seed(seed, process));
    if (!trial) return std::nullopt;
    if (trial->outcome != Outcome::ok) {
      if (process > 0) trial->reason = fmt::format("in process {}: {}", process + 1, trial->reason);
      replication.trial = std::move(*trial);
      return replication;
    }
    replication.processes.push_back(timed_part(trial->metrics));
    if (process == 0) {
      replication.trial = std::move(*trial);
      begin = Clock::now();
    }
    spent = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  replication.trial.seconds += spent;
  for (auto& [name, measurement] : over_processes(replication.processes))
    replication.trial.metrics[name] = std::move(measurement);
  return replication;
}

Metrics timed_part(const Metrics& metrics) {
  Metrics timed;
  for (const auto& [name, measurement] : metrics)
    if (is_timed(name)) timed.insert({name, measurement});
  return timed;
}

Metrics over_processes(std::span<const Metrics> processes) {
  Metrics all;
  for (const auto& [name, unused] : processes.front()) {
    std::vector<Measurement> each;
    for (const Metrics& metrics : processes)
      if (const auto found = metrics.find(name); found != metrics.end()) each.push_back(found->second);
    if (each.size() == processes.size()) all[name] = over_processes(each);
  }
  return all;
}

}  // namespace moetune
