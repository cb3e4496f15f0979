// What tune and the nightly check ask alike, of a run directory and of the search. What they ask for
// themselves is added where they do. Start at run_request_of().
#pragma once

#include <cstdint>
#include <span>

#include "tuner/commands/study.h"
#include "tuner/progress.h"
#include "tuner/run_directory.h"
#include "tuner/tune.h"

namespace moetune {

// Of --timing, for one turn of a final round after a search: a process says less the longer it is listened to
// than another one does.
inline constexpr double turn_share = 0.25;

// Model, workload with its own service level, conditions and build; space, searcher, objectives, gate, seed
// and command line are left to the caller.
RunRequest run_request_of(const Study& study, const Configuration& default_configuration);

// objectives and progress must outlive the request, which has neither a budget nor finalists. The study may
// not.
TuneRequest tune_request_of(const Study& study, const Configuration& default_configuration,
                            std::span<const Objective> objectives, std::uint64_t seed, Progress& progress);

}  // namespace moetune
