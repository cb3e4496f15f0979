#include "tuner/nightly_check.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "tuner/choose.h"
#include "tuner/counted.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

// Against the baseline's program, in the same passes.
bool is_against_program(const NightlyPoint& point) {
  return !point.rounds_beside.empty() && point.rounds_beside.size() == point.rounds_now.size();
}

// Fields under which the machine runs, as opposed to the program that is checked.
bool runs_under_other_software(const NightlyInput& input) {
  const Staleness& staleness = input.staleness;
  if (is_against_program(input.points.front())) return false;  // both programs ran under tonight's
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
      text += point.slowdown ? "is " + slowdown_text(*point.slowdown) : "has nothing to compare with";
  }
  return text;
}

// What the canaries say about where a slowdown comes from.
std::string origin_text(const NightlyInput& input) {
  if (is_against_program(input.points.front()))
    return "Both ran in turns tonight: it is the program, not the machine.";
  int moved = 0;
  int known = 0;
  for (std::size_t i = 1; i < input.points.size(); ++i) {
    const std::optional<Slowdown>& slowdown = input.points[i].slowdown;
    if (!slowdown || !slowdown->interval) continue;
    // A rough interval may show that one moved, but not that it stayed.
    if (slowdown->has_alike_neighbours && slowdown->interval->low <= 0.0) continue;
    ++known;
    moved += slowdown->interval->low > 0.0 ? 1 : 0;
  }
  if (known == 0) return "No canary can say whether the machine or the configuration is slower.";
  const std::string what = canaries_text(input.points);
  if (moved == known)
    return fmt::format(
        "The canaries are slower as well ({}): machine, build or engine, not this configuration alone.",
        what);
  if (moved == 0) return fmt::format("The canaries are not slower ({}): it is this configuration.", what);
  return fmt::format("Of the canaries some are slower: {}.", what);
}

// The first canary that is now better than the baseline beyond doubt, and may be used.
const NightlyPoint* better_canary(const NightlyInput& input) {
  for (std::size_t i = 1; i < input.points.size(); ++i) {
    const NightlyPoint& point = input.points[i];
    if (!point.over_baseline || !point.over_baseline->interval) continue;
    const GateVerdict gate = judge(point.now, input.gate).verdict;
    const bool is_accurate =
        gate == GateVerdict::met || (gate == GateVerdict::unknown && point.role == NightlyRole::standard);
    const bool is_better = point.over_baseline->interval->high < -input.threshold / 2;
    if (is_accurate && is_better) return &point;
  }
  return nullptr;
}

// Which of the two has too few rounds.
std::string missing_rounds(const NightlyPoint& baseline) {
  if (is_against_program(baseline) || std::ssize(baseline.rounds_then) >= fewest_rounds)
    return "Tonight gave " + counted(baseline.rounds_now.size(), "round");
  return fmt::format(
      "The profile holds {} of its final round (a tune with a larger --budget, or 'moetune ci --retune "
      "--out PROFILE', makes one that holds enough)",
      counted(baseline.rounds_then.size(), "round"));
}

std::vector<std::string> remarks_about(const NightlyInput& input) {
  std::vector<std::string> remarks;
  if (!input.beside_failure.empty())
    remarks.push_back(fmt::format(
        "The baseline's program could not be measured ({}): compared with the profile's own numbers instead.",
        input.beside_failure));
  if (!input.points.empty() && input.points.front().since_profile)
    remarks.push_back(fmt::format("Against the numbers of the profile, another night's: {}.",
                                  slowdown_text(*input.points.front().since_profile)));
  if (!input.staleness.differences.empty()) remarks.push_back(input.staleness.words(Asker::check));
  for (const NightlyPoint& point : input.points)
    if (!point.failure.empty() && point.role != NightlyRole::baseline)
      remarks.push_back(fmt::format("The {} could not be measured: {}.", name_of(point.role), point.failure));
  return remarks;
}

}  // namespace

std::string_view name_of(NightlyRole role) {
  switch (role) {
    case NightlyRole::baseline:
      return "baseline";
    case NightlyRole::standard:
      return "default";
    case NightlyRole::runner_up:
      return "runner-up";
  }
  return "?";
}

std::string_view name_of(NightlyVerdict verdict) {
  switch (verdict) {
    case NightlyVerdict::ok:
      return "ok";
    case NightlyVerdict::regression:
      return "regression";
    case NightlyVerdict::indeterminate:
      return "indeterminate";
    case NightlyVerdict::stale:
      return "stale";
  }
  return "?";
}

void compare_rounds(std::vector<NightlyPoint>& points, const Objective& objective) {
  if (points.empty()) return;
  const std::vector<double> baseline =
      points.front().failure.empty() ? points.front().rounds_now : std::vector<double>();
  for (NightlyPoint& point : points) {
    if (!point.failure.empty() || point.rounds_now.empty()) continue;
    const auto worse = [&](const auto& compare, std::span<const double> before, std::span<const double> now) {
      return objective.maximize ? compare(now, before) : compare(before, now);
    };
    if (!point.rounds_then.empty())
      point.slowdown = worse(slowdown_since, point.rounds_then, point.rounds_now);
    if (is_against_program(point))
      point.since_profile =
          std::exchange(point.slowdown, worse(paired_slowdown, point.rounds_beside, point.rounds_now));
    if (point.role != NightlyRole::baseline && baseline.size() == point.rounds_now.size())
      point.over_baseline = worse(paired_slowdown, baseline, point.rounds_now);
  }
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
                                                       input.staleness.differences_text(Rung::other_software),
                                                       "Nothing measured here can be compared with it"));
  if (!input.other_work.empty())
    return conclude(NightlyVerdict::indeterminate,
                    fmt::format("Other work ran beside it: {}. Times taken meanwhile prove nothing.",
                                fmt::join(input.other_work, ", ")));
  if (input.points.empty()) return conclude(NightlyVerdict::indeterminate, "Nothing was measured.");

  const NightlyPoint& baseline = input.points.front();
  if (!baseline.failure.empty())
    return conclude(
        NightlyVerdict::regression,
        fmt::format("The baseline's configuration worked then and does not now: {}.", baseline.failure));
  const GateJudgement gate = judge(baseline.now, input.gate);
  if (gate.verdict == GateVerdict::missed && !gate.straddles &&
      judge(baseline.then, input.gate).verdict == GateVerdict::met)
    return conclude(NightlyVerdict::regression,
                    fmt::format("The baseline's configuration {}; then it met it.", gate.words));
  if (!input.other_work_then.empty() && !is_against_program(baseline))
    return conclude(
        NightlyVerdict::indeterminate,
        fmt::format(
            "The baseline was measured beside other work ({}), so that its times are not this machine's "
            "alone. A tune on a quiet machine, or 'moetune ci --retune --out PROFILE', makes one to "
            "compare with; --baseline-program needs none.",
            fmt::join(input.other_work_then, ", ")));
  if (!baseline.slowdown || !baseline.slowdown->interval)
    return conclude(NightlyVerdict::indeterminate,
                    fmt::format("{}; {} independent ones are the fewest that can be judged.",
                                missing_rounds(baseline), fewest_rounds));

  const Slowdown& slowdown = *baseline.slowdown;
  const double half = input.threshold / 2;
  const bool is_beside = is_against_program(baseline);
  const std::string measured =
      fmt::format("{} is {}{}", input.objective.metric, slowdown_text(slowdown),
                  is_beside ? " than with the baseline's program in the same passes" : "");
  const SlowdownVerdict judged = judge_slowdown(slowdown, input.threshold);
  if (judged == SlowdownVerdict::regression) {
    const std::string beyond =
        fmt::format("{}: its interval lies above {}, half of the --threshold of {}. {}", measured,
                    per_cent(half), per_cent(input.threshold), origin_text(input));
    if (runs_under_other_software(input))
      return conclude(
          NightlyVerdict::stale,
          fmt::format(
              "{} The machine runs under other software than the baseline ({}): its numbers are stale.",
              beyond, input.staleness.differences_text(Rung::other_software)));
    return conclude(NightlyVerdict::regression, beyond);
  }
  if (slowdown.interval->high < -half) {
    if (runs_under_other_software(input))
      return conclude(NightlyVerdict::stale,
                      fmt::format("{} under other software than the baseline's ({}): its numbers are stale.",
                                  measured, input.staleness.differences_text(Rung::other_software)));
    result.remarks.push_back(
        "Faster than the baseline: losing that again would not be found. 'moetune ci --retune --out PROFILE' "
        "makes it the new baseline.");
  }
  if (const NightlyPoint* canary = better_canary(input))
    return conclude(
        NightlyVerdict::stale,
        fmt::format(
            "The choice does not hold any more: against the baseline's configuration the {} ({}) is {}.",
            name_of(canary->role), canary->configuration.key(), slowdown_text(*canary->over_baseline)));
  if (judged == SlowdownVerdict::ok)
    return conclude(NightlyVerdict::ok,
                    fmt::format("{}: no slowdown of {}.", measured, per_cent(input.threshold)));
  if (slowdown.has_alike_neighbours)
    return conclude(
        NightlyVerdict::indeterminate,
        fmt::format("Tonight gave {}, but neighbours among these or the profile's are so alike that they "
                    "count as a few: {}. {} independent ones are the fewest that can be judged so closely.",
                    counted(baseline.rounds_now.size(), "round"), measured, fewest_rounds));
  return conclude(
      NightlyVerdict::indeterminate,
      fmt::format("{}: too wide to tell a slowdown of {} from none; about {} rounds would{}.", measured,
                  per_cent(input.threshold), rounds_needed(slowdown, input.threshold),
                  is_beside ? "" : ", or --baseline-program, with which the machine's mood cancels"));
}

}  // namespace moetune
