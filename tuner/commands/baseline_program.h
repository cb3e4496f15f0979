// The program that made a baseline, or last night's, measured in turns with this one: in every pass of the
// final round it times the baseline's configuration too, in a process of its own before the others' and, in
// the next pass, after them. A mood of the machine that lasts longer than a night's check then cancels, which
// it cannot against numbers of another night. Start at BaselineProgram::measure().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/configuration.h"
#include "tuner/interruption.h"
#include "tuner/objective.h"
#include "tuner/trial_runner.h"

namespace moetune {

class BaselineProgram {
 public:
  // settings: as for this program's own timing; command and setup are replaced. What was planted to be found
  // (--inject-delay, a synthetic target that is slower) is planted in the program that is checked, so it is
  // taken out here. Throws InputError where file is no program that can be run.
  BaselineProgram(std::string file, TrialRunnerSettings settings, Configuration configuration,
                  Objective objective);

  // One turn. False: interrupted. Throws InputError, naming --baseline-program, where its worker does not
  // start: another protocol, another program. A turn that fails ends the comparison, see failure().
  bool measure(std::uint64_t seed, const Interruption& interruption);

  // The objective's value in each pass so far.
  const std::vector<double>& rounds() const { return rounds_; }
  const std::string& file() const { return file_; }
  const std::string& failure() const { return failure_; }  // "crashed: ..."; empty: none

 private:
  std::string file_;
  TrialRunnerSettings settings_;
  Configuration configuration_;
  Objective objective_;
  std::vector<double> rounds_;
  std::string failure_;
};

// The setup without what was planted to be found.
nlohmann::json without_planted(nlohmann::json setup);

}  // namespace moetune
