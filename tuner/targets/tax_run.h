// The tax of a workload on an engine: the same runs without recording and with it; on a CPU also with records
// that cost twice as much (which tells what one costs), and in turns, so that what the machine does meanwhile
// meets all of them. Start at measure_tax().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/sync_tax/breakdown.h"
#include "engine/sync_tax/device_cost.h"
#include "engine/sync_tax/step_recorder.h"
#include "engine/sync_tax/thread_times.h"
#include "engine/tokenizer.h"
#include "kernels/device_trace.h"
#include "tuner/measurement.h"
#include "tuner/targets/gpu_watch.h"
#include "tuner/targets/run_spread.h"

namespace moetune {

// Events per token, in the mean.
struct TokenCauses {
  bool is_of_host = true;     // false: a GPU decoded without it, and only the loads are known per token
  double expert_loads = 0.0;  // waves of misses
  double minor_faults = 0.0;
  double major_faults = 0.0;
  double preemptions = 0.0;
};

struct PhaseTax {
  Breakdown typical;  // of the middle half of the steps, by length
  TokenCauses typical_causes;
  std::optional<RunSpread> token_spread;  // of the typical one's plain time, and of its tax
  std::optional<RunSpread> tax_spread;
  std::optional<Breakdown> slowest;  // of the slowest hundredth; empty below 100 steps
  TokenCauses slowest_causes;
};

struct RoundTax {
  Breakdown whole;  // prompt and answer of one round
};

// What the host did in the runs that were not recorded, per run.
struct HostUse {
  double run_ns = 0.0;              // by the clock on the wall
  std::vector<ThreadTime> threads;  // empty: this kernel does not count
  StepCauses causes;                // of all runs together
  std::int64_t runs = 0;
};

struct TaxResult {
  PhaseTax
      decode;  // per step: what each of its sequences waits for a token. Refused where nothing was decoded
  PhaseTax prefill;                 // per prompt
  std::vector<RoundTax> rounds;     // of an agent's task; empty with one round
  Breakdown task;                   // all prompts and answers of a sequence: an agent's whole task
  RecordingCost cost;               // of a CPU's records
  DeviceRecordingCost device_cost;  // of a GPU's
  bool is_of_kernels = false;       // recorded on a GPU
  GpuUse use;                       // of it, by the driver's counters, without recording
  HostUse host;
  std::int64_t unlabelled_kernels = 0;  // of it: they count as other compute
  std::int64_t recorded_runs = 0;
  // The last recorded run, for a timeline.
  std::vector<RecordedStep> last_steps;
  std::vector<StepInterval> last_intervals;  // RecordedStep::first counts into these
  std::vector<DeviceRecord> last_records;    // of a GPU
};

inline constexpr std::size_t kFewestTurns = 2;
// Runs of the workload that measure_tax() takes at least: with and without recording, and to warm up.
int fewest_tax_runs(DeviceKind device);

// Runs without recording, for a GPU: CUPTI makes launches slower from where it is opened, so whoever measures
// more than one thing in a process takes all of these first.
struct TaxRuns;  // tuner/targets/tax_runs.h
struct PlainRuns {
  std::shared_ptr<TaxRuns> runs;
  std::size_t turns = 0;
  ChainTimes chains;  // without recording, to tell what it adds
  GpuUse use;
  HostUse host;
};
PlainRuns plain_runs(Engine& engine, const Workload& workload, const TokenSource& text, double seconds);

// Runs for about that long, and at least so many turns, however long these take; one run before warms up.
// Arrivals and pauses of the workload are left out: all sequences start together. Throws std::runtime_error
// where a GPU cannot be recorded (DeviceTrace::why_not()) or records were lost. plain: of the same engine and
// workload; null: takes its own.
TaxResult measure_tax(Engine& engine, const Workload& workload, const TokenSource& text, double seconds,
                      const std::function<void(const std::string& words)>& progress,
                      const PlainRuns* plain = nullptr, std::size_t fewest_turns = kFewestTurns);

// tax_token_ms (the time of the recording's own plain tokens), tax_<part>_ms and tax_unexplained_ms, which
// add up to it, and tax_share. Empty where it was refused.
Metrics tax_metrics(const Breakdown& decode);

// Recording is a few more runs of the workload: worth it while they are short beside the time for timing.
bool is_worth_recording(const Workload& workload, double tokens_per_s, double latency_seconds);

}  // namespace moetune
