// The worker's side: what the hidden command `moetune worker` runs. Reads requests, measures, answers, until
// the tuner closes the pipe or dies.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tuner/target.h"

namespace moetune {

using ProgressWords = std::function<void(const std::string&)>;

// Builds the target from the setup document (TrialRunnerSettings::setup). InputError ends the run with exit
// code 2. progress: short words on what happens now ("reading weights", "reference logits 512/4096").
using TargetFactory =
    std::function<std::unique_ptr<Target>(const nlohmann::json& setup, const ProgressWords& progress)>;

// Returns the process's exit code. Call it first thing in the process: it moves stdout to stderr and asks the
// kernel to end this process with its parent.
int serve_worker(const TargetFactory& make_target);

}  // namespace moetune
