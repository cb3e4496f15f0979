// Measures what a baseline promised, tonight: its configurations in turns, and who else worked meanwhile.
// Start at measure_tonight().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/commands/baseline.h"
#include "tuner/commands/nightly_study.h"
#include "tuner/final_round.h"
#include "tuner/nightly_record.h"

namespace moetune {

// How many passes so much measuring is cut into. Processes differ more than what one of them measures in a
// second and in three, so more of them tell more: one a second, as long as their starts take no longer than
// the measuring itself, but never fewer than a final round of tune has.
FinalLimits nightly_limits(double measuring_seconds);
// The passes, and the trial before them.
double times_measured(double measuring_seconds);

struct TonightInput {
  const Baseline& baseline;
  const Study& study;
  const TargetOptions& target;
  double measuring_seconds = 60.0;
  std::optional<double> budget_seconds;  // of a whole search; empty: only the check
  bool judges_beside_other_work = false;
  std::string baseline_program;  // measured in turns with this one; empty: none
  std::string run_path;          // empty: a new one below runs/
  std::vector<std::string> command_line;
};

struct Tonight {
  std::string run_path;
  NightlyStudyResult measured;
  std::vector<std::string> other_work;  // that ran beside it and was judged beside (--beside-other-work)
};

// Fills the record's points, time and other work. Empty: other work was on the GPU from the start, so nothing
// was measured; or it was interrupted, as the caller can see.
std::optional<Tonight> measure_tonight(const TonightInput& input, NightlyRecord& record,
                                       const Console& console, const Interruption& interruption);

}  // namespace moetune
