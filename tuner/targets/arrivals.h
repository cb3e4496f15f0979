// Requests that arrive one by one at times of their own, as a server sees them: each takes a free sequence as
// soon as there is one, its prompt is read between the others' steps, and all that run step together. Start
// at run_arrivals().
//
// Time is counted, not waited for: it goes on by what the engine's steps take, and jumps to the next arrival
// where nothing runs. A later arrival can so be simulated in no time, and a busy engine delays everybody as
// it would.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

// workload.arrivals_per_s must be known. A run is twice as many requests as there are sequences; run: its
// number, which decides text and times of arrival. first_token_ms counts from the arrival; token_ms is one
// per request and token.
RunTimes run_arrivals(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price = {});

// Share of what an engine completes with all sequences busy at which requests shall arrive.
inline constexpr double arrival_share = 0.8;
// Requests per second when every sequence gets the next one at once; of a few runs.
double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price = {});

// The rate of a study is found out once: every process reads what the first one has written. key: of model,
// machine, build and workload. Empty folder: nothing is kept. read: 0 where nothing was written yet.
double read_arrival_rate(const std::string& folder, const std::string& key);
std::string write_arrival_rate(const std::string& folder, const std::string& key,
                               double per_s);  // why it was not kept; empty: it was
std::string arrival_rate_folder();

}  // namespace moetune
