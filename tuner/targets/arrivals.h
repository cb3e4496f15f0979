// How fast the requests of a workload with Poisson arrivals come, where it does not say so itself: a share of
// what the default configuration completes. Found once and kept with the study. Start at completed_per_s().
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "tuner/targets/timed_engine.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

// Share of what an engine completes with all sequences busy at which requests shall arrive.
inline constexpr double arrival_share = 0.8;
// Requests per second when every free sequence gets the next one at once; median of a few runs, or one where
// those would take longer than most_run_seconds. price: of a step, for tests. Throws RunTooLong where the
// first run takes longer than that.
double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price = {}, double most_run_seconds = no_limit);

// The rate of a study, in a file of its folder: the first process writes it, every later one reads it, and
// --resume finds it.
struct ArrivalRate {
  double per_s = 0.0;  // 0: there is none (or no folder)
  std::string note;    // whose rate it is, where it is not the default's; one line
};
ArrivalRate read_arrival_rate(const std::string& folder);
// Returns why it could not be kept; empty: it was.
std::string write_arrival_rate(const std::string& folder, const ArrivalRate& rate);

// Why the default configuration gives no rate: kept like it, so that no later process tries it again. Empty:
// it may.
std::string read_why_no_default_rate(const std::string& folder);
std::string write_why_no_default_rate(const std::string& folder, const std::string& why);

}  // namespace moetune
