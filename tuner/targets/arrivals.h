// How fast the requests of a workload with Poisson arrivals come, where it does not say so itself: a share of
// what the default configuration completes. Found once and kept with the study. Start at completed_per_s().
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "tuner/targets/timed_engine.h"

namespace moetune {

// Share of what an engine completes with all sequences busy at which requests shall arrive.
inline constexpr double arrival_share = 0.8;
// Requests per second when every free sequence gets the next one at once; median of a few runs. price: of a
// step, for tests.
double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price = {});

// The rate of a study, in a file of its folder: the first process writes it, every later one reads it, and
// --resume finds it. read: 0 where there is none (or no folder). write: why it could not be kept; empty: it
// was.
double read_arrival_rate(const std::string& folder);
std::string write_arrival_rate(const std::string& folder, double per_s);

}  // namespace moetune
