// How long a workload's tokens take on an engine, and what they cost in energy: tpot_ms, ttft_ms,
// tokens_per_s, joules_per_token, and what the load adds (load_metrics.h). Start at measure_latency().
//
// A sample is one run of the workload: its mean time per decoded token. The median over runs and its interval
// say what a run can expect; p99 comes from the single tokens. Runs read other windows of the text, so the
// spread between texts is part of the interval. Runs that must not count (a throttled machine) are left out,
// as long as they are the smaller part: a machine that is never at its best is measured as it is, and
// `stopped` says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/facts/run_stats.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "tuner/measurement.h"
#include "tuner/targets/timed_engine.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

struct LatencyResult {
  Metrics metrics;
  RunStats stats;         // counters of the runs behind the metrics, warm-up left out
  std::string no_energy;  // why joules_per_token is not known; empty: it is, or nobody counts
};

// The device's energy so far, in joules; empty: it cannot be read.
using EnergyCounter = std::function<std::optional<double>()>;

// Synchronisation and launch gaps of a task, ms, which no plain run counts (service_level.h); empty: not
// known.
using TaskRecording = std::function<std::optional<double>()>;

// Told of every run right after it; false: it shall not count. is_warm_up: it does not count anyway.
using RunObserver = std::function<bool(const RunTimes& times, bool is_warm_up)>;

// joules: empty where nothing counts the device's energy. most_seconds: of measuring, warm-up not counted;
// ends earlier when the interval of tpot_ms is narrow. price: of a step, for tests. record_task: asked once,
// behind all timed runs, where the workload has rounds; without it neither task_tax_ms nor a goodput by it is
// known. longest_run_seconds: run_workload()'s limit, for the first run that warms up.
LatencyResult measure_latency(Engine& engine, const Workload& workload, const TokenSource& text,
                              double most_seconds,
                              const std::function<void(const std::string& words)>& progress,
                              const EnergyCounter& joules = {}, const StepPrice& price = {},
                              const RunObserver& observe = {}, const TaskRecording& record_task = {},
                              double longest_run_seconds = no_limit);

}  // namespace moetune
