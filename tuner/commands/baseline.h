// The profile a night is checked against, and which of its configurations are measured again. Start at
// read_baseline().
#pragma once

#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/commands/study.h"
#include "tuner/nightly_check.h"

namespace moetune {

struct Baseline {
  LaunchProfile profile;
  std::string file;
};

// path: a profile, or a run directory that holds one. model: for the command that makes one, in the message.
// Throws InputError.
Baseline read_baseline(const std::string& path, const std::string& model);

// The default configuration, as the profile has it.
Configuration standard_of(const Baseline& baseline, const Study& study);

struct CheckedConfiguration {
  NightlyRole role = NightlyRole::baseline;
  Configuration configuration;
  Metrics then;
  std::vector<double> rounds_then;  // of the objective; empty: it was in no final round
};
// The recommended configuration first, then the default and the runner-up, each once. Where that is only one,
// a point of the front stands in for the runner-up, because nothing can be measured in turns with itself.
std::vector<CheckedConfiguration> checked_configurations(const Baseline& baseline, const Study& study);

std::vector<Configuration> front_of(const LaunchProfile& profile);

}  // namespace moetune
