// After a night's check: a new profile, and what changed. Only the knobs whose effect moved are searched
// again (tuner/moved_knobs.h); where none did, the baseline's choice is kept with tonight's numbers. Start at
// retune().
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/commands/baseline.h"
#include "tuner/commands/nightly_study.h"
#include "tuner/commands/partial_file.h"
#include "tuner/nightly_record.h"

namespace moetune {

// Both files, opened before anything is measured.
struct RetuneOutput {
  explicit RetuneOutput(const std::string& path) : profile("--out", path), diff("--out", path + ".diff.md") {}
  PartialFile profile;
  PartialFile diff;
};

struct RetuneInput {
  const Baseline& baseline;
  const Study& study;
  const TargetOptions& target;
  const NightlyRecord& record;
  const NightlyStudyResult& measured;
  bool is_whole_search = false;     // the check was one: its profile is the new one
  double measuring_seconds = 60.0;  // of the check; a search may take three times as long
  std::string run_path;
  std::vector<std::string> other_work;  // that ran beside the check and was judged beside
  std::vector<std::string> command_line;
};

// Returns what it did, for --json. Writes nothing where nothing can be concluded, and says so.
nlohmann::json retune(const RetuneInput& input, RetuneOutput& output, const Console& console,
                      const Interruption& interruption);

// The baseline with tonight's numbers and tonight's box. why_kept: a clause that says why nothing was
// searched.
LaunchProfile refreshed_profile(const LaunchProfile& baseline, const NightlyRecord& record,
                                const Study& study, const std::string& why_kept);

}  // namespace moetune
