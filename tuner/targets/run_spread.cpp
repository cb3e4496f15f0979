#include "tuner/targets/run_spread.h"

#include <algorithm>

namespace moetune {
namespace {

std::vector<std::int64_t> lengths_of(std::span<const Account> steps) {
  std::vector<std::int64_t> lengths;
  for (const Account& step : steps) lengths.push_back(step.length_ns);
  return lengths;
}

// What `value` says of the steps of each run; runs without a step say nothing.
template <class Value>
std::vector<double> by_run(std::span<const Account> steps, std::span<const std::size_t> ends,
                           const Value& value) {
  std::vector<double> values;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (end > begin) values.push_back(value(steps.subspan(begin, end - begin)));
    begin = end;
  }
  return values;
}

}  // namespace

std::optional<RunSpread> spread_over_runs(std::span<const double> by_run_ns, double value_ns) {
  if (by_run_ns.size() < 2) return std::nullopt;
  RunSpread spread{.ns = {}, .runs = std::ssize(by_run_ns)};
  if (const auto interval = median_of_series(by_run_ns).interval) {
    spread.ns = *interval;
  } else {
    const auto [least, most] = std::ranges::minmax(by_run_ns);
    spread.ns = {least, most};
    spread.is_range = true;
  }
  spread.ns = {std::min(spread.ns.low, value_ns), std::max(spread.ns.high, value_ns)};
  return spread;
}

std::vector<double> length_by_run(std::span<const Account> steps, std::span<const std::size_t> ends) {
  return by_run(steps, ends, [](std::span<const Account> run) { return middle_mean(lengths_of(run)); });
}

std::vector<double> tax_by_run(std::span<const Account> steps, std::span<const std::size_t> ends,
                               const RecordingCost& cost) {
  return by_run(steps, ends, [&](std::span<const Account> run) {
    std::vector<Account> typical;
    for (const std::size_t i : middle_half(lengths_of(run))) typical.push_back(run[i]);
    return break_down(typical, 1.0, cost).tax_ns();  // its parts do not depend on the plain time
  });
}

}  // namespace moetune
