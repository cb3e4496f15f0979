// Where the default configuration cannot be measured: which ones of the space are likely to be. By the bytes
// that a decoding step has to move (step_bytes.h) at the rates of this box: a floor and no prediction, but it
// tells what fits from what brings its experts over the link in every step.
#pragma once

#include <cstddef>
#include <vector>

#include "tuner/accuracy_gate.h"
#include "tuner/commands/study.h"
#include "tuner/configuration.h"
#include "tuner/search_space.h"

namespace moetune {

// At most so many, best first: what may be recommended (accuracy unknown: what keeps the default's own,
// unless the gate is open), then what may keep a service level about the time per token, then what changes
// the output in fewer ways, then the lower floor. Empty for a made-up study.
std::vector<Configuration> cheapest_configurations(const Study& study, const SearchSpace& space,
                                                   const LegalSet& legal,
                                                   const Configuration& default_configuration,
                                                   const AccuracyGate& gate, std::size_t most);

}  // namespace moetune
