// Recorded steps as a Chrome trace (chrome://tracing, ui.perfetto.dev): Trace Event Format, complete events,
// microseconds from the first step on. One track per activity, so that what runs beside something else can be
// seen to.
#pragma once

#include <span>
#include <string>

#include "engine/sync_tax/step_recorder.h"

namespace moetune {

// steps[i].first counts into intervals. title: shown as the name of the process. records: what a GPU did,
// beside it, as torch.profiler writes it, so that whatever reads its traces reads this one (moetune tax
// --import does).
std::string timeline_of(std::span<const RecordedStep> steps, std::span<const StepInterval> intervals,
                        const std::string& title, std::span<const DeviceRecord> records = {});

}  // namespace moetune
