#include "tuner/nightly_check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tuner/choose.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

// One process's own interval says how well that process is known, not what the next one gives (statistics.h).
constexpr std::int64_t fewest_processes = 6;

// Fields under which the machine runs, as opposed to the program that is checked.
bool runs_under_other_software(const Staleness& staleness) {
  return staleness.has("driver") || staleness.has("cuda") || staleness.has("os");
}

std::string per_cent(double share) { return fmt::format("{:.2g} %", 100.0 * share); }

// "default 7.0 % slower (...), runner-up failed": whether the canaries moved as well.
std::string canaries_text(const std::vector<NightlyPoint>& points) {
  std::string text;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const NightlyPoint& point = points[i];
    text += fmt::format("{}the {} ", text.empty() ? "" : ", ", name_of(point.role));
    if (!point.failure.empty())
      text += point.failure;
    else
      text += point.slowdown ? slowdown_text(*point.slowdown) : "has no interval to compare with";
  }
  return text;
}

// What the canaries say about where a slowdown comes from.
std::string origin_text(const NightlyInput& input) {
  int moved = 0;
  int known = 0;
  for (std::size_t i = 1; i < input.points.size(); ++i) {
    const std::optional<Slowdown>& slowdown = input.points[i].slowdown;
    if (!slowdown) continue;
    ++known;
    moved += slowdown->low > 0.0 ? 1 : 0;
  }
  if (known == 0) return "No canary can say whether the machine or the configuration is slower.";
  const std::string what = canaries_text(input.points);
  if (moved == known) return fmt::format("The canaries are slower as well ({}): machine, build or engine, not this configuration alone.", what);
  if (moved == 0) return fmt::format("The canaries are not slower ({}): it is this configuration.", what);
  return fmt::format("Of the canaries some are slower: {}.", what);
}

// The first canary that is now better than the baseline beyond doubt, and may be used.
const NightlyPoint* better_canary(const NightlyInput& input) {
  for (std::size_t i = 1; i < input.points.size(); ++i) {
    const NightlyPoint& point = input.points[i];
    if (!point.over_baseline || !point.over_baseline->low || !point.over_baseline->high) continue;
    const GateVerdict gate = judge(point.now, input.gate).verdict;
    const bool is_accurate =
        gate == GateVerdict::met || (gate == GateVerdict::unknown && point.role == NightlyRole::standard);
    const bool is_better = input.objective.maximize ? *point.over_baseline->low > 1.0 + input.threshold / 2
                                                    : *point.over_baseline->high < 1.0 - input.threshold / 2;
    if (is_accurate && is_better) return &point;
  }
  return nullptr;
}

// Which of the two has none.
std::string missing_interval(const NightlyPoint& baseline, const std::string& metric) {
  const auto then = baseline.then.find(metric);
  if (then == baseline.then.end() || !then->second.low || then->second.processes < fewest_processes)
    return "in the profile: a tune with a final round makes one";
  return "tonight";
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all.append(all.empty() ? "" : ", ").append(text);
  return all;
}

std::vector<std::string> remarks_about(const NightlyInput& input) {
  std::vector<std::string> remarks;
  if (!input.staleness.differences.empty()) remarks.push_back(input.staleness.words());
  for (const NightlyPoint& point : input.points)
    if (!point.failure.empty() && point.role != NightlyRole::baseline)
      remarks.push_back(fmt::format("The {} could not be measured: {}.", name_of(point.role), point.failure));
  return remarks;
}

}  // namespace

std::string_view name_of(NightlyRole role) {
  switch (role) {
    case NightlyRole::baseline: return "baseline";
    case NightlyRole::standard: return "default";
    case NightlyRole::runner_up: return "runner-up";
  }
  return "?";
}

std::string_view name_of(NightlyVerdict verdict) {
  switch (verdict) {
    case NightlyVerdict::ok: return "ok";
    case NightlyVerdict::regression: return "regression";
    case NightlyVerdict::indeterminate: return "indeterminate";
    case NightlyVerdict::stale: return "stale";
  }
  return "?";
}

std::optional<Slowdown> slowdown_between(const Measurement& then, const Measurement& now, bool larger_is_better) {
  if (!then.low || !then.high || !now.low || !now.high) return std::nullopt;
  if (std::min(then.processes, now.processes) < fewest_processes) return std::nullopt;
  if (std::min({then.value, *then.low, *then.high, now.value, *now.low, *now.high}) <= 0.0) return std::nullopt;
  const auto up = [](const Measurement& m) { return std::log(*m.high / m.value); };
  const auto down = [](const Measurement& m) { return std::log(m.value / *m.low); };
  const Measurement& top = larger_is_better ? then : now;
  const Measurement& bottom = larger_is_better ? now : then;
  const double ratio = std::log(top.value / bottom.value);
  return Slowdown{.value = std::expm1(ratio),
                  .low = std::expm1(ratio - std::hypot(down(top), up(bottom))),
                  .high = std::expm1(ratio + std::hypot(up(top), down(bottom)))};
}

std::string slowdown_text(const Slowdown& slowdown) {
  const bool is_faster = slowdown.value < 0.0;
  const double sign = is_faster ? -1.0 : 1.0;
  return fmt::format("{:.1f} % {} (95 % interval {:.1f} % to {:.1f} %)", 100.0 * std::abs(slowdown.value),
                     is_faster ? "faster" : "slower", 100.0 * sign * (is_faster ? slowdown.high : slowdown.low),
                     100.0 * sign * (is_faster ? slowdown.low : slowdown.high));
}

NightlyResult judge_nightly(const NightlyInput& input) {
  NightlyResult result;
  result.remarks = remarks_about(input);
  const auto conclude = [&](NightlyVerdict verdict, std::string reason) {
    result.verdict = verdict;
    result.reason = std::move(reason);
    return result;
  };
  if (input.staleness.rung > Rung::other_software)
    return conclude(NightlyVerdict::stale, fmt::format("The baseline was measured elsewhere: {}. {}.",
                                                       input.staleness.differences_text(),
                                                       "Nothing measured here can be compared with it"));
  if (!input.other_work.empty())
    return conclude(NightlyVerdict::indeterminate,
                    fmt::format("Other work ran beside it: {}. Times taken meanwhile prove nothing.", joined(input.other_work)));
  if (input.points.empty()) return conclude(NightlyVerdict::indeterminate, "Nothing was measured.");

  const NightlyPoint& baseline = input.points.front();
  if (!baseline.failure.empty())
    return conclude(NightlyVerdict::regression,
                    fmt::format("The baseline's configuration worked then and does not now: {}.", baseline.failure));
  const GateJudgement gate = judge(baseline.now, input.gate);
  if (gate.verdict == GateVerdict::missed && !gate.straddles && judge(baseline.then, input.gate).verdict == GateVerdict::met)
    return conclude(NightlyVerdict::regression, fmt::format("The baseline's configuration {}; then it met it.", gate.words));
  if (!baseline.slowdown)
    return conclude(NightlyVerdict::indeterminate,
                    fmt::format("The {} of the baseline's configuration has no interval over {} or more processes, {}.",
                                input.objective.metric, fewest_processes, missing_interval(baseline, input.objective.metric)));

  const Slowdown& slowdown = *baseline.slowdown;
  const double half = input.threshold / 2;
  const std::string measured = fmt::format("{} is {}", input.objective.metric, slowdown_text(slowdown));
  if (slowdown.low > half) {
    const std::string beyond = fmt::format("{}, beyond half the threshold of {}. {}", measured, per_cent(input.threshold), origin_text(input));
    if (runs_under_other_software(input.staleness))
      return conclude(NightlyVerdict::stale,
                      fmt::format("{} The machine runs under other software than the baseline ({}): its numbers are stale.", beyond,
                                  input.staleness.differences_text()));
    return conclude(NightlyVerdict::regression, beyond);
  }
  if (slowdown.high < -half) {
    if (runs_under_other_software(input.staleness))
      return conclude(NightlyVerdict::stale, fmt::format("{} under other software than the baseline's ({}): its numbers are stale.",
                                                         measured, input.staleness.differences_text()));
    result.remarks.push_back("Faster than the baseline: losing that again would not be found. 'moetune ci --retune --out PROFILE' makes it the new baseline.");
  }
  if (const NightlyPoint* canary = better_canary(input))
    return conclude(NightlyVerdict::stale,
                    fmt::format("The choice does not hold any more: the {} ({}) has now {:.3g} times the baseline's {} (95 % interval "
                                "{:.3g} to {:.3g}).",
                                name_of(canary->role), canary->configuration.key(), canary->over_baseline->value, input.objective.metric,
                                *canary->over_baseline->low, *canary->over_baseline->high));
  if (slowdown.high < input.threshold)
    return conclude(NightlyVerdict::ok, fmt::format("{}: no slowdown of {}.", measured, per_cent(input.threshold)));
  return conclude(NightlyVerdict::indeterminate,
                  fmt::format("{}: too wide to tell a slowdown of {} from none. A quieter machine or more time (--measuring) narrows it.",
                              measured, per_cent(input.threshold)));
}

Metrics metrics_of(const ProfilePoint& point) {
  Metrics metrics;
  for (const Evidence& evidence : point.evidence)
    metrics[evidence.metric] = {.value = evidence.value,
                                .low = evidence.low,
                                .high = evidence.high,
                                .p99 = evidence.p99,
                                .n = evidence.n,
                                .origin = origin_named(evidence.origin, "evidence"),
                                .stopped = evidence.stopped,
                                .processes = evidence.processes};
  return metrics;
}

}  // namespace moetune
