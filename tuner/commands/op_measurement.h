// What 'measure --op' found, and under which conditions: its table, its notes and its document are written
// from this. Start at OpMeasurement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/bench/op_bench.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "tuner/statistics.h"

namespace moetune {

// What the device reaches.
struct OpRates {
  double read_gb_per_s = 0.0;
  double tensor_flops = 0.0;  // 0: not known
};

struct OpMeasurement {
  ModelSpec model;  // all of it
  EngineOptions engine;
  std::string where;   // the device
  std::string driver;  // empty: none
  std::int64_t context = 1;
  bool is_prompt = false;
  std::uint64_t seed = 1;
  int runs = 1;  // of each op that were asked for
  double budget_seconds = 0.0;
  int wanted_layers = 1;
  bool has_fewer_layers = false;  // were made, for lack of time
  OpRates rates;
  std::vector<OpTiming> timings;
};

// Of one layer, in the unit that a reader thinks in.
struct OpShares {
  double microseconds;
  std::optional<Interval> interval;
  double read_share;  // above 1 it did not come from memory; see is_in_cache()
  std::optional<double> tensor_share;
};
OpShares shares_of(const OpTiming& timing, const OpRates& rates);  // of one that was timed

// Faster than memory can be read: what it needed was in a cache, and a share of memory's rate says nothing
// about it.
bool is_in_cache(const OpShares& shares);

}  // namespace moetune
