#include "tuner/targets/latency.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "tuner/statistics.h"
#include "tuner/stop_rule.h"
#include "tuner/targets/energy_window.h"
#include "tuner/targets/load_metrics.h"
#include "tuner/targets/occasional_words.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr double narrow_interval = 0.03;  // of the median
constexpr double warm_up_share = 0.25;    // of the measuring time, at most
constexpr double spread_share =
    0.5;  // of the measuring time, at least: a machine's mood lasts longer than a few runs
constexpr std::int64_t good_number_of_runs = 16;
constexpr std::int64_t runs_for_an_interval = 6;
constexpr std::ptrdiff_t most_whole_runs =
    16;                           // of typed prompts that are not read ahead: for comparison only
constexpr double patience = 4.0;  // times the measuring time that an interval may cost where runs are long
constexpr std::uint64_t window_stride = 1000;  // window numbers of one seed do not meet those of the next

// What a run is judged by while measuring: the decoded token, or the first one where the answer has no
// second.
double sample_of(const RunTimes& times) {
  return times.token_ms.empty() ? times.mean_first_token_ms() : times.mean_token_ms();
}

// How many runs there have to be before time or a narrow interval may end them.
std::int64_t fewest_runs(double run_seconds, double most_seconds) {
  const auto runs_in = [&](double seconds) { return static_cast<std::int64_t>(seconds / run_seconds); };
  const std::int64_t spread = runs_in(spread_share * most_seconds);
  if (spread >= good_number_of_runs) return spread;
  if (runs_in(most_seconds) >= runs_for_an_interval)
    return std::min(good_number_of_runs, runs_in(most_seconds));
  return std::clamp<std::int64_t>(runs_in(patience * most_seconds), 1, runs_for_an_interval);
}

// The same prompts, typed alike, but read only when the last key has come: what reading ahead is worth.
Measurement first_token_without_reading_ahead(Engine& engine, Workload workload, const TokenSource& text,
                                              std::uint64_t window, std::int64_t runs,
                                              const std::string& stopped, const StepPrice& price) {
  workload.prewarmed = false;
  std::vector<double> run_ms;
  std::vector<double> single_ms;
  for (std::int64_t run = 0; run < runs; ++run) {
    const RunTimes times = run_workload(engine, workload, text, window++, price);
    run_ms.push_back(times.mean_first_token_ms());
    for (const double ms : times.first_token_ms()) single_ms.push_back(ms);
  }
  return over_runs(run_ms, single_ms, stopped);
}

}  // namespace

LatencyResult measure_latency(Engine& engine, const Workload& workload, const TokenSource& text,
                              double most_seconds,
                              const std::function<void(const std::string& words)>& progress,
                              const EnergyCounter& joules, const StepPrice& price, const RunObserver& observe,
                              const TaskRecording& record_task, double longest_run_seconds) {
  OccasionalWords say(progress);
  std::uint64_t window = workload.seed * window_stride;
  WarmUp warm_up;
  double run_seconds = 0.0;
  for (double seconds = 0.0;
       !warm_up.steady() && (warm_up.count() == 0 || seconds < warm_up_share * most_seconds);) {
    say([&] { return fmt::format("warming up, run {}", warm_up.count() + 1); });
    const double most_run_seconds = warm_up.count() == 0 ? longest_run_seconds : no_limit;
    const RunTimes times = run_workload(engine, workload, text, window++, price, most_run_seconds);
    if (observe) observe(times, true);
    warm_up.add(sample_of(times));
    seconds += times.seconds;
    run_seconds = times.seconds;
  }

  EnergyWindow energy;
  bool counts_energy = static_cast<bool>(joules);
  const auto count_energy = [&](std::int64_t tokens) {
    const std::optional<double> so_far = counts_energy ? joules() : std::nullopt;
    counts_energy = so_far.has_value();
    if (so_far) energy.add(*so_far, tokens);
  };

  engine.reset_stats();
  count_energy(0);
  const std::int64_t likely_runs = static_cast<std::int64_t>(most_seconds / run_seconds);
  StopRule stop({.relative_width = narrow_interval,
                 .at_least = fewest_runs(run_seconds, most_seconds),
                 .seconds = most_seconds});
  std::int64_t left_out = 0;
  std::int64_t throttled_but_counted = 0;
  std::vector<double> run_token_ms;
  std::vector<double> token_ms;
  std::vector<double> run_first_token_ms;
  std::vector<double> first_token_ms;
  std::vector<double> tokens_per_s;
  LoadSamples load(workload);
  const std::uint64_t first_window = window;
  while (!stop.done()) {
    say([&] {
      return fmt::format("timing, run {} of about {}", stop.count() + 1,
                         std::max(likely_runs, stop.count() + 1));
    });
    const RunTimes times = run_workload(engine, workload, text, window++, price);
    count_energy(times.output_tokens);
    if (observe && !observe(times, false)) {
      if (left_out < likely_runs / 2) {
        ++left_out;
        stop.leave_out(times.seconds);
        continue;
      }
      ++throttled_but_counted;
    }
    run_first_token_ms.push_back(times.mean_first_token_ms());
    for (const double ms : times.first_token_ms()) first_token_ms.push_back(ms);
    load.add(times);
    tokens_per_s.push_back(times.tokens_per_s());
    if (!times.token_ms.empty()) run_token_ms.push_back(times.mean_token_ms());
    token_ms.insert(token_ms.end(), times.token_ms.begin(), times.token_ms.end());
    stop.add(sample_of(times), times.seconds);
  }

  std::string stopped = stop.reason();
  if (throttled_but_counted > 0)
    stopped += fmt::format("; throttled in {} of {} runs that count", throttled_but_counted, stop.count());
  LatencyResult result;
  result.stats = engine.stats();
  if (!run_token_ms.empty()) {
    Measurement& tpot = result.metrics["tpot_ms"] = time_measurement(run_token_ms, stopped);
    tpot.p99 = p99(token_ms);
    tpot.n = std::ssize(token_ms);
  }
  result.metrics["ttft_ms"] = over_runs(run_first_token_ms, first_token_ms, stopped);
  result.metrics["tokens_per_s"] = time_measurement(tokens_per_s, stopped);
  result.metrics["tokens_per_s"].p99.reset();  // of a rate the high end is the good one
  const bool has_tasks = workload.rounds > 1 || workload.slo.metric == "task_tax";
  result.metrics.merge(load.metrics(stopped, record_task && has_tasks ? record_task() : std::nullopt));
  if (workload.prewarmed && workload.typed_pieces > 1 && engine.options().prefix_cache)
    result.metrics["ttft_whole_ms"] = first_token_without_reading_ahead(
        engine, workload, text, first_window, std::min(std::ssize(run_first_token_ms), most_whole_runs),
        stopped, price);
  for (auto& [name, measurement] : result.metrics) {
    measurement.throttled = left_out;
    // It travels with every number, wherever that goes: the clock jumped over the pauses.
    if (!pauses_note(workload).empty()) measurement.stopped += "; pauses counted, not waited for";
  }
  if (const auto per_token = energy.joules_per_token(); per_token && counts_energy)
    result.metrics["joules_per_token"] = *per_token;
  else if (joules)
    result.no_energy = counts_energy ? energy.reason() : "the GPU's energy counter could not be read";
  return result;
}

}  // namespace moetune
