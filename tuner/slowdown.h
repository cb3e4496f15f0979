// Has something become slower, and by how much for sure? Start at paired_slowdown() and judge_slowdown().
//
// Compared are times that were taken in turns: within a round both met the same mood of the machine, so it
// cancels in their ratio. Times of another day have no such pairs: slowdown_since().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tuner/statistics.h"

namespace moetune {

struct Slowdown {
  double value = 0.0;                 // 0.05: times are 5 % longer; -0.05: 5 % shorter
  std::optional<Interval> interval;   // 95 %; empty: too few rounds for one (fewest_rounds)
  std::int64_t rounds = 0;            // behind it; of two unpaired series the shorter one's
  bool has_alike_neighbours = false;  // the interval is a rough one: RankEstimate::is_beyond_ranks
};

inline constexpr std::int64_t fewest_rounds = 6;  // that have a 95 % interval

// Round by round the time now over the time before, both of the same length and at least one; times above 0.
// For a rate, where more is better, hand in `now` as `before` and the other way round. Throws
// std::invalid_argument for anything else.
Slowdown paired_slowdown(std::span<const double> before, std::span<const double> now);

// The same where `before` was measured at another time: any two lengths, of which the shorter one says
// whether there is an interval (fewest_rounds). The day's own mood is then part of the difference, and no
// interval can know it.
Slowdown slowdown_since(std::span<const double> before, std::span<const double> now);

enum class SlowdownVerdict : std::uint8_t { ok, regression, indeterminate };
std::string_view name_of(SlowdownVerdict verdict);

// threshold: the slowdown that must be found (0.05: 5 %), above 0. Regression: the interval lies above half
// of it; otherwise ok: it lies below it; otherwise, and without an interval, indeterminate. A slowdown of T
// is then found as soon as the interval is narrower than T / 2 on its lower side, and a false alarm needs an
// estimate that is wrong by more than T / 2.
SlowdownVerdict judge_slowdown(const Slowdown& slowdown, double threshold);

// How many rounds would probably end an indeterminate verdict: an interval narrows with the root of the
// rounds, and it has to leave the nearer of the two bounds. For a verdict that is none: the rounds it has. At
// most 1,000,000.
std::int64_t rounds_needed(const Slowdown& slowdown, double threshold);

// Rounds after which an interval that now reaches `reach` beyond its value will reach only `wanted`: more
// than `rounds` where that is less. At most 1,000,000.
std::int64_t rounds_to_narrow(std::int64_t rounds, double reach, double wanted);

// "4.8 % slower (95 % interval 3.9 % to 5.6 % slower, 24 rounds)", "0.3 % faster (95 % interval 1.0 % faster
// to 0.4 % slower, 24 rounds)"
std::string slowdown_text(const Slowdown& slowdown);
// The verdict with its reason: "regression: 4.8 % slower (...) lies above 2.5 %, half of the threshold of 5
// %", "indeterminate: ...; about 40 rounds would tell".
std::string verdict_text(const Slowdown& slowdown, double threshold);

}  // namespace moetune
