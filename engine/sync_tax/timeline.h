// Recorded steps as a Chrome trace (chrome://tracing, ui.perfetto.dev): Trace Event Format, complete events,
// microseconds from the first step on. One track per activity, so that what runs beside something else can be
// seen to.
#pragma once

#include <span>
#include <string>

#include "engine/sync_tax/step_recorder.h"

namespace moetune {

// steps[i].first counts into intervals. title: shown as the name of the process.
std::string timeline_of(std::span<const RecordedStep> steps, std::span<const StepInterval> intervals,
                        const std::string& title);

}  // namespace moetune
