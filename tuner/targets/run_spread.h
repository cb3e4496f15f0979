// How far the runs behind a tax lie apart: one value for each run, since the steps within one share its
// moment and are no independent draws. Start at spread_over_runs().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sync_tax/breakdown.h"
#include "tuner/statistics.h"

namespace moetune {

struct RunSpread {
  Interval ns;            // with the value itself in it, which is made of the steps of all runs
  std::int64_t runs = 0;  // behind it
  bool is_range = false;  // fewer than six have no 95 % interval: it is from the least to the most of them
};

// Empty: fewer than two runs.
std::optional<RunSpread> spread_over_runs(std::span<const double> by_run_ns, double value_ns);

// Accounts in the order of their runs; ends: how many there were at the end of each.
std::vector<double> length_by_run(std::span<const Account> steps, std::span<const std::size_t> ends);
std::vector<double> tax_by_run(std::span<const Account> steps, std::span<const std::size_t> ends,
                               const RecordingCost& cost);

}  // namespace moetune
