// The final round of a tuning run: the few configurations that may be recommended, and the default, measured
// again in turns. A search measures each configuration once, at some time of its own; a machine's mood
// differs between two times by more than most gains, and the best of many is also the luckiest of many. In
// turns, in fresh processes, both cancel: within a pass all finalists share a fresh process and its mood, and
// what is compared are ratios within passes. Times only: accuracy and memory do not depend on when they are
// measured. Start at next_turn() and final_round().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/objective.h"
#include "tuner/statistics.h"
#include "tuner/trial.h"

namespace moetune {

inline constexpr std::size_t most_finalists = 4;
// Two passes are the least that shows a difference between passes; from 6 on there is a 95 % interval.
inline constexpr std::int64_t fewest_passes = 2;

// Of 20 ratios the fifth from either end enclose the median with more than 98.3 %, so that three challengers
// hold 95 % together, and four disturbed passes on either side do no harm (reports/noise/replay.txt). The
// number is fixed beforehand: who looks after every pass and stops at a welcome result is wrong more often
// than his interval says.
inline constexpr std::int64_t usual_passes = 20;

struct FinalLimits {
  std::int64_t passes = usual_passes;
  std::int64_t fewest = fewest_passes;  // made whatever they take
  // No pass after the fewest begins when it would probably end later than this; empty: no limit.
  std::optional<double> seconds = std::nullopt;
  // The same of the time in which weights are loaded and converted, the load_seconds of the turns.
  std::optional<double> load_seconds = std::nullopt;
};

// Of the whole budget, what the final round may spend on changing from one finalist's weights to the next's.
inline constexpr double most_load_share = 0.2;

struct NextTurn {
  std::int64_t trial = 0;  // to be measured again
  FinalTurn turn;
};

// What the round of these finalists still owes, as a function of the log alone. Within a pass each finalist
// is measured once, in an order that moves on and turns around from pass to pass; one that failed is left out
// from then on; one that is alone goes on, since its values by pass are what a later night is compared with.
// Empty: the round is over. after: trials of the search. Throws InputError when the log holds
// the round in another order.
std::optional<NextTurn> next_turn(std::span<const std::int64_t> finalists, std::int64_t after,
                                  std::span<const Trial> measured_again, const FinalLimits& limits);

struct Finalist {
  std::int64_t trial = 0;
  Metrics metrics;  // timed ones, over the complete passes
  // Its value of the objective over the first finalist's in the same pass; empty for that one itself. From 6
  // passes on with a 95 % interval that holds for all finalists at once.
  std::optional<Measurement> ratio;
  std::string failure;  // outcome and reason of the turn that failed; it then has none of the above
};

struct FinalRound {
  std::vector<Finalist> finalists;  // the default first, if it is one
  std::int64_t passes = 0;          // complete ones
  std::vector<double>
      reference_by_pass;      // the first finalist's value of the objective: how the machine's mood went
  double seconds = 0.0;       // of all turns
  double load_seconds = 0.0;  // of that: weights were loaded and converted

  const Finalist* find(std::int64_t trial) const;
};

// The newest round after that many trials in which all of them were finalists and at least fewest_passes are
// complete. Empty: there is none, or nobody is wanted.
std::optional<FinalRound> final_round(std::span<const std::int64_t> wanted, std::int64_t after,
                                      std::span<const Trial> measured_again, const Objective& objective);

// By how much the first finalist changed from the first third of the passes to the last (0.03: 3 % more),
// between medians. Empty: fewer than 6 passes, or it failed.
std::optional<double> drift_of(const FinalRound& round);

// The first finalist against itself: its value in the second pass of every block (next_turn()) over that in
// the first, as a challenger's ratio would be judged. Its interval should hold 1; how far it reaches is what
// this machine makes of no difference at all. The passes of a block are processes of their own, which those
// of a verdict's ratios are not: it is the wider of the two. Empty: fewer than 6 blocks, or it failed.
std::optional<Measurement> against_itself(const FinalRound& round);

// What the search measured, with what the final round measured again in its place.
Metrics with_final_times(const Metrics& metrics, const Finalist& finalist);

}  // namespace moetune
