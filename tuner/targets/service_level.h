// Which requests keep a service level. Start at kept_of().
//
// A level on tpot is about the request's own mean time per token, one on ttft about its own first token, one
// on a task about all of an agent's rounds; "_p99" says how a whole configuration is judged and changes
// nothing for the single request.
#pragma once

#include <cstdint>

#include "engine/facts/workload.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

// The tax of a task as `moetune tax` has it (Breakdown::tax_ns), mean over the tasks of a run, ms: the run's
// own waits for experts and for collectives, which the engine counts, and uncounted_ms, synchronisation and
// launch gaps of one task, which only a recording shows.
double task_tax_ms(const RunTimes& times, double uncounted_ms);

// Requests of the run that keep the level; tasks, where it is about tasks. uncounted_ms: for a level on
// task_tax.
std::int64_t kept_of(const RunTimes& times, const Slo& slo, double uncounted_ms);

}  // namespace moetune
