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

// What a task waits for beside computing: experts that have to be loaded, and collectives. Mean over the
// tasks of a run, ms.
double task_tax_ms(const RunTimes& times);

// Requests of the run that keep the level; tasks, where it is about tasks.
std::int64_t kept_of(const RunTimes& times, const Slo& slo);

}  // namespace moetune
