// The measuring part of `moetune ci`: a run directory of its own in which given configurations are measured,
// optionally a search goes on from them, and a final round compares them all in turns. Start at
// run_nightly_study().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/commands/conclusion.h"
#include "tuner/commands/study.h"
#include "tuner/commands/target_options.h"
#include "tuner/interruption.h"
#include "tuner/tune.h"

namespace moetune {

struct NightlyStudy {
  std::string run_path;
  const LaunchProfile* baseline = nullptr;
  Configuration default_configuration;   // trial 0
  std::vector<Configuration> given;      // measured next, and always finalists
  std::vector<Configuration> front;      // measured after these: where a search begins
  std::optional<SearchSpace> space;      // searched afterwards; empty: nothing is
  std::optional<double> budget_seconds;  // of a search
  double timing_seconds = 2.0;           // most time for timing one configuration once
  std::optional<FinalLimits> limits;     // of the final round without a search
  std::string baseline_program;          // measured in turns with this one; empty: none
  std::vector<std::string> command_line;
  std::function<void()> on_look;  // several times a second while measuring
};

struct NightlyStudyResult {
  bool interrupted = false;
  double measuring_seconds = 0.0;
  Conclusion conclusion;
  std::optional<FinalRound> round;  // of all finalists; empty: it was not finished
  // Of the baseline's configuration by the baseline's program, a value of the objective for each pass.
  std::vector<double> rounds_beside;
  std::string beside_failure;
};

// Throws as tune() and RunDirectory::create() do.
NightlyStudyResult run_nightly_study(const NightlyStudy& nightly, const Study& study,
                                     const TargetOptions& target, const Console& console,
                                     const Interruption& interruption);

// The space with every parameter but the named ones kept at the configuration's value.
SearchSpace space_of_knobs(SearchSpace space, const std::vector<std::string>& names,
                           const Configuration& configuration);

}  // namespace moetune
