// What statistics and verdicts have to hold, as experiments over replayed noise (noise_replay.h): seeded, so
// that tests and the report that prints them (tests/bench/noise_replay_bench.cpp) see the same numbers on
// every machine. Start at adoptions().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/noise_replay.h"

namespace moetune {

// Studies of ten configurations: a default, nine challengers that are as fast, but for one that is faster by
// `gain` (0: none). How often something else than the default was recommended, and how often it was the
// faster one.
struct Adoptions {
  int studies = 0;
  int replaced = 0;
  int right = 0;
  int indeterminate = 0;
  double passes = 0.0;  // of the final round, mean
};
Adoptions adoptions(const RecordedNoise& noise, double gain, int studies);

// Whole studies of a space of some 500 configurations (support/small_study.h): search, final round, choice.
// How many of them recommend the same profile as most, or one whose true time lies within the tolerance that
// the other states.
struct Repeats {
  int studies = 0;
  int same = 0;                   // the very same configuration as most
  int within_tolerance = 0;       // that, or within the stated tolerance of it
  double tolerance = 0.0;         // stated, median
  std::vector<std::string> each;  // what every study recommends, with its true time and its tolerance
  std::string usual;              // the configuration that most recommend
};
Repeats repeats(const RecordedNoise& noise, int studies, std::size_t trials_each);

// Re-runs of a measurement: how often its stated 95 % interval holds the long-run value, and how wide it is
// beside the interval of a block bootstrap over the same samples.
struct Coverage {
  int re_runs = 0;
  int stated = 0;                // that had an interval
  int covered = 0;               // of those stated
  double width = 0.0;            // mean, over the long-run value
  double bootstrap_width = 0.0;  // mean
  int bootstraps = 0;            // how many of the re-runs had one drawn
  int bootstrap_covered = 0;     // of those
};
// series: the samples of the re-run with that number, in their order; truth: their long-run median.
Coverage coverage(const std::function<std::vector<double>(std::uint32_t)>& series, double truth, int re_runs);
// The same of what `measure` says: 25 processes that follow each other, in blocks of `block` taken anywhere
// from the recording.
Coverage measure_coverage(const RecordedNoise& noise, std::size_t block, int re_runs);
// Of the paired ratio of two configurations that differ by nothing, over `rounds` rounds that follow each
// other as recorded.
Coverage ratio_coverage(const RecordedNoise& noise, std::int64_t rounds, int re_runs);

// `ci` at a threshold: trials of `rounds` rounds of baseline and canary, the canary slower by `slowdown`.
struct Alarms {
  int trials = 0;
  int regressions = 0;
  int ok = 0;
  int indeterminate = 0;
};
Alarms alarms(const RecordedNoise& noise, double slowdown, double threshold, std::int64_t rounds, int trials);

// Whole checks as `moetune ci` makes them: a profile whose final round took one half of the recording, and a
// night that takes the other half, in which everything is slower by `slowdown`. Each half is cut into as many
// passes as a round has; a pass gives one process to each of baseline, default and runner-up. Judged by
// judge_nightly(); stale counts as neither.
Alarms nights(const RecordedNoise& noise, double slowdown, double threshold, int trials);
// The same with the baseline's program in each pass of the night (--baseline-program), in a process of its
// own, before the others' and after them by turns; it is not slower. Sixty passes, as the recorded processes
// are a quarter of a second long.
Alarms nights_beside(const RecordedNoise& noise, double slowdown, double threshold, int trials);

}  // namespace moetune
