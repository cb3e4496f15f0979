// From what a GPU was recorded to do to the intervals of its steps. Start at steps_of_device().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sync_tax/device_cost.h"
#include "engine/sync_tax/interval.h"
#include "engine/sync_tax/recorded_step.h"
#include "kernels/device_trace.h"

namespace moetune {

struct DeviceSteps {
  std::vector<RecordedStep> steps;
  std::vector<StepInterval> intervals;  // RecordedStep::first and count are of these
  std::int64_t unlabelled = 0;  // kernels in steps of which nobody knows what they belong to: compute, other
  std::int64_t unlabelled_ns = 0;
};

// steps: in their order; a prompt's with its times on the host, by the records' clock, a decoded one's
// without. Decoded steps get theirs from marked kernels: from the end of the one before to the end of its
// own. host_work: what the host computed for the model. A kernel that was launched before the one in front of
// it on its stream had ended waits for it: it counts from there. cost: what recording added to kernels, and
// to the launches of graphs that the device waited for, becomes intervals of Activity::recording. Throws
// std::runtime_error where there are more or fewer marked kernels than decoded steps.
DeviceSteps steps_of_device(std::span<const DeviceRecord> records, std::span<const RecordedStep> steps,
                            std::span<const StepInterval> host_work, const DeviceRecordingCost& cost = {});

// The same of everything that was recorded, steps or not: what the device did, and where the host held it up.
std::vector<StepInterval> intervals_of_device(std::span<const DeviceRecord> records);

}  // namespace moetune
