#include "tuner/targets/tax_run.h"

#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "kernels/device_trace.h"
#include "tuner/targets/tax_recording.h"

namespace moetune {
namespace {

constexpr double most_recording_share = 0.5;  // of the time for timing
constexpr int runs_per_turn = 3;              // plain, recorded, recorded at twice the cost
constexpr double ns_per_ms = 1e6;

// Everybody starts at once.
Workload without_pauses(Workload workload) {
  workload.poisson_arrivals = false;
  workload.arrivals_per_s = 0.0;
  workload.tool_gap_seconds = 0.0;
  return workload;
}

std::uint64_t first_run(const Workload& workload) { return workload.seed * 1000; }

}  // namespace

int fewest_tax_runs(DeviceKind device) {
  constexpr int turns = static_cast<int>(kFewestTurns);
  constexpr int gpu_passes = 3;  // plain, with the driver's counters, recorded
  constexpr int gpu_warm_ups = 2;
  return device == DeviceKind::cpu ? 1 + runs_per_turn * turns : gpu_warm_ups + gpu_passes * turns;
}

PlainRuns plain_runs(Engine& engine, const Workload& workload, const TokenSource& text, double seconds) {
  const Workload together = without_pauses(workload);
  Recording recording(engine, together, text);
  return take_plain(recording,
                    {.first_run = first_run(workload), .rounds = workload.rounds, .seconds = seconds});
}

TaxResult measure_tax(Engine& engine, const Workload& workload, const TokenSource& text, double seconds,
                      const std::function<void(const std::string& words)>& progress, const PlainRuns* plain,
                      std::size_t fewest_turns) {
  const Workload together = without_pauses(workload);
  Recording recording(engine, together, text);
  const int rounds = workload.rounds;
  TurnLimits limits{.first_run = first_run(workload),
                    .rounds = rounds,
                    .seconds = seconds,
                    .fewest_turns = fewest_turns,
                    .progress = progress};
  if (progress) progress("warming up");
  Taken taken;
  if (engine.options().device == DeviceKind::cpu) {
    taken = take_on_host(recording, limits);
  } else {
    if (const std::string problem = DeviceTrace::why_not(); !problem.empty())
      throw std::runtime_error(problem);
    limits.seconds /= 2;  // plain runs and recorded ones
    const PlainRuns own = plain != nullptr ? *plain : take_plain(recording, limits);
    taken = take_on_device(recording, limits, own);
  }
  TaxResult& result = taken.result;
  result.decode = phase_tax(taken.plain.decode, taken.recorded.decode, result.cost, !result.is_of_kernels);
  result.prefill = phase_tax(taken.plain.prefill, taken.recorded.prefill, result.cost);
  const double prompts = static_cast<double>(workload.sequences) * rounds;
  add_decode_spread(result.decode, taken.plain, taken.recorded, result.cost);
  add_prefill_spread(result.prefill, taken.plain, taken.recorded, result.cost);
  divide(result.prefill, prompts);
  result.task = phase_tax(taken.plain.whole, taken.recorded.whole, result.cost).typical;
  divide(result.task, workload.sequences);
  result.rounds = round_taxes(taken.plain, taken.recorded, result.cost, rounds);
  return std::move(result);
}

Metrics tax_metrics(const Breakdown& decode) {
  Metrics metrics;
  if (!decode.refused.empty()) return metrics;
  const auto add = [&](const std::string& name, double value) {
    Measurement& measurement = metrics[name];
    measurement.value = value;
    measurement.n = decode.n;
  };
  add("tax_share", decode.tax_share());
  add("tax_token_ms", decode.token_ns / ns_per_ms);
  for (std::size_t part = 0; part < kParts; ++part)
    add(fmt::format("tax_{}_ms", kPartNames[part]), decode.exposed_ns[part] / ns_per_ms);
  add("tax_unexplained_ms", decode.unexplained_ns / ns_per_ms);
  return metrics;
}

bool is_worth_recording(const Workload& workload, double tokens_per_s, double latency_seconds) {
  const double tokens = static_cast<double>(workload.sequences) * workload.rounds * workload.output_tokens;
  const double seconds = fewest_tax_runs(DeviceKind::cpu) * tokens / tokens_per_s;
  return seconds < most_recording_share * latency_seconds;
}

}  // namespace moetune
