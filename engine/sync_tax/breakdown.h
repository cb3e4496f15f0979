// The tax of a typical token from the accounts of many: what recording cost is taken out, and what then still
// differs from the time of the same tokens without recording is unexplained, with its sign. Start at
// break_down().
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sync_tax/account.h"

namespace moetune {

// What one record of a CPU adds to the time of a step, calibrated where it is recorded (step_recorder.h).
// What recording adds on a GPU is in the accounts already (device_cost.h).
struct RecordingCost {
  double inside_ns = 0.0;   // between the two ends of its own interval
  double outside_ns = 0.0;  // before and behind it: looks like a launch gap
};

// Nanoseconds per token (or per prompt): means over the accounts it was made of.
struct Breakdown {
  std::string refused;       // why there is none; empty: there is one
  double token_ns = 0.0;     // without recording
  double recorded_ns = 0.0;  // of the steps that were recorded, as they were
  std::array<double, kParts> exposed_ns{};
  std::array<double, kParts> hidden_ns{};
  std::array<double, kRows> row_ns{};
  double unexplained_ns =
      0.0;  // token_ns less the exposed parts; below zero: they are more than the token's time
  double recording_ns = 0.0;  // what was taken out
  std::int64_t n = 0;         // accounts behind it

  // Exposed communication and loading, synchronisation and launch gaps.
  double tax_ns() const;
  double tax_share() const;  // of token_ns
  // The part of the tax that only a recording shows: synchronisation and launch gaps.
  double uncounted_ns() const;
};

// Recording that makes tokens longer than this, times their plain time, describes something else than the
// plain run.
inline constexpr double kMostRecordedShare = 1.10;

// accounts: of single tokens; plain_ns: of a token that was not recorded, in the mean. Refused without
// accounts, without a plain time, and beyond kMostRecordedShare.
Breakdown break_down(std::span<const Account> accounts, double plain_ns, const RecordingCost& cost);

// Which of the values lie between the first and the third quartile (inclusive): a typical token, whatever
// disturbed others.
std::vector<std::size_t> middle_half(std::span<const std::int64_t> lengths_ns);
double middle_mean(std::span<const std::int64_t> lengths_ns);

// Which are the slowest hundredth, at least one; empty below 100 values.
std::vector<std::size_t> slowest_hundredth(std::span<const std::int64_t> lengths_ns);

}  // namespace moetune
