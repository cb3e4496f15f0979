#include "tuner/slowdown.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "tuner/autocorrelation.h"
#include "tuner/rank_shift.h"

namespace moetune {
namespace {

// Deviations that a correlation between rounds has to exceed. Ratios within rounds have lost what makes times
// alike.
constexpr double chance = 1.5;
constexpr std::int64_t most_rounds_said = 1'000'000;

double logarithm(double time) {
  if (!(time > 0.0) || !std::isfinite(time)) throw std::invalid_argument("a time that is not above 0");
  return std::log(time);
}

std::vector<double> logarithms(std::span<const double> times) {
  std::vector<double> logs;
  for (const double time : times) logs.push_back(logarithm(time));
  return logs;
}

Slowdown slowdown_of(const RankEstimate& logs, std::int64_t rounds) {
  Slowdown slowdown{.value = std::expm1(logs.value),
                    .interval = {},
                    .rounds = rounds,
                    .has_alike_neighbours = logs.is_beyond_ranks};
  if (logs.interval)
    slowdown.interval = Interval{std::expm1(logs.interval->low), std::expm1(logs.interval->high)};
  return slowdown;
}

// Machines that are as fast every night differ by hundredths of a per cent.
std::string per_cent_text(double slowdown) {
  const double per_cent = 100.0 * std::abs(slowdown);
  return fmt::format("{:.{}f} %", per_cent, per_cent > 0.0 && per_cent < 0.095 ? 2 : 1);
}

const char* direction(double slowdown) { return slowdown < 0.0 ? "faster" : "slower"; }

std::string signed_text(double slowdown) { return per_cent_text(slowdown) + " " + direction(slowdown); }

}  // namespace

Slowdown paired_slowdown(std::span<const double> before, std::span<const double> now) {
  if (before.size() != now.size() || before.empty())
    throw std::invalid_argument("rounds without a partner, or none");
  std::vector<double> ratios = logarithms(now);
  for (std::size_t round = 0; round < before.size(); ++round) ratios[round] -= logarithm(before[round]);
  return slowdown_of(middle_of_differences(ratios, usual_confidence, correlation_time(ratios, chance)),
                     std::ssize(ratios));
}

Slowdown slowdown_since(std::span<const double> before, std::span<const double> now) {
  const std::vector<double> earlier = logarithms(before);
  const std::vector<double> later = logarithms(now);
  if (earlier.empty() || later.empty()) throw std::invalid_argument("no rounds");
  // Each series spreads the difference by its own correlation, the more the shorter it is.
  const double weight_before = 1.0 / static_cast<double>(earlier.size());
  const double weight_now = 1.0 / static_cast<double>(later.size());
  const double time =
      (weight_before * correlation_time(earlier, chance) + weight_now * correlation_time(later, chance)) /
      (weight_before + weight_now);
  RankEstimate shift = shift_between(earlier, later, usual_confidence, time);
  const auto rounds = static_cast<std::int64_t>(std::min(before.size(), now.size()));
  // Three rounds have ranks enough for an interval, but are too few to show that they shared one mood.
  if (rounds < fewest_rounds) shift = {.value = shift.value, .interval = {}};
  return slowdown_of(shift, rounds);
}

std::string_view name_of(SlowdownVerdict verdict) {
  switch (verdict) {
    case SlowdownVerdict::ok:
      return "ok";
    case SlowdownVerdict::regression:
      return "regression";
    case SlowdownVerdict::indeterminate:
      return "indeterminate";
  }
  throw std::logic_error("no such verdict");
}

SlowdownVerdict judge_slowdown(const Slowdown& slowdown, double threshold) {
  if (!(threshold > 0.0)) throw std::invalid_argument("a threshold that is not above 0");
  if (!slowdown.interval) return SlowdownVerdict::indeterminate;
  if (slowdown.interval->low > 0.5 * threshold) return SlowdownVerdict::regression;
  return slowdown.interval->high < threshold ? SlowdownVerdict::ok : SlowdownVerdict::indeterminate;
}

std::int64_t rounds_to_narrow(std::int64_t rounds, double reach, double wanted) {
  const double ratio = reach / wanted;
  const double needed = std::ceil(static_cast<double>(rounds) * ratio * ratio);
  if (!(needed < static_cast<double>(most_rounds_said))) return most_rounds_said;
  return std::max({fewest_rounds, rounds + 1, static_cast<std::int64_t>(needed)});
}

std::int64_t rounds_needed(const Slowdown& slowdown, double threshold) {
  if (judge_slowdown(slowdown, threshold) != SlowdownVerdict::indeterminate) return slowdown.rounds;
  if (!slowdown.interval) return std::max(fewest_rounds, slowdown.rounds + 1);
  const double to_ok = threshold - slowdown.value;
  const double to_regression = slowdown.value - 0.5 * threshold;
  return to_ok >= to_regression
             ? rounds_to_narrow(slowdown.rounds, slowdown.interval->high - slowdown.value, to_ok)
             : rounds_to_narrow(slowdown.rounds, slowdown.value - slowdown.interval->low, to_regression);
}

std::string slowdown_text(const Slowdown& slowdown) {
  const std::string count = fmt::format("{} round{}", slowdown.rounds, slowdown.rounds == 1 ? "" : "s");
  if (!slowdown.interval) return fmt::format("{} (no 95 % interval, {})", signed_text(slowdown.value), count);
  const auto& [low, high] = *slowdown.interval;
  if ((low < 0.0) != (high < 0.0))
    return fmt::format("{} (95 % interval {} to {}, {})", signed_text(slowdown.value), signed_text(low),
                       signed_text(high), count);
  const bool is_faster = high < 0.0;  // the smaller difference first
  return fmt::format("{} (95 % interval {} to {}, {})", signed_text(slowdown.value),
                     per_cent_text(is_faster ? high : low), signed_text(is_faster ? low : high), count);
}

std::string verdict_text(const Slowdown& slowdown, double threshold) {
  const std::string bound = fmt::format("the threshold of {:.3g} %", 100.0 * threshold);
  const SlowdownVerdict verdict = judge_slowdown(slowdown, threshold);
  const std::string found = fmt::format("{}: {}", name_of(verdict), slowdown_text(slowdown));
  switch (verdict) {
    case SlowdownVerdict::regression:
      return fmt::format("{} lies above {:.3g} %, half of {}", found, 50.0 * threshold, bound);
    case SlowdownVerdict::ok:
      return fmt::format("{} lies below {}", found, bound);
    case SlowdownVerdict::indeterminate:
      break;
  }
  return fmt::format("{} lies neither below {} nor above {:.3g} %, half of it; about {} rounds would tell",
                     found, bound, 50.0 * threshold, rounds_needed(slowdown, threshold));
}

}  // namespace moetune
