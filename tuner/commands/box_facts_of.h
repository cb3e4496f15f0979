// The facts about this box that doctor judges. Start at look_at_box().
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu_health.h"
#include "tuner/doctor/box_facts.h"
#include "tuner/doctor/findings.h"

namespace moetune {

// measures: also the rates of memory and link, which takes a second and, with GPU code, a context on the
// first GPU.
BoxFacts look_at_box(bool measures);

// The driver's utilisation covers up to the last second: a probe of ours, or a run that has just ended, is
// still in it. A GPU that is busy with nothing that shows is therefore looked at again, for up to four
// seconds, before it counts as somebody else's.
GpusSeen look_at_settled_gpus(const std::function<GpusSeen()>& look,
                              const std::function<void(std::chrono::milliseconds)>& wait);

// As NVML tells it. proc: "/proc", for who belongs to whom.
GpuState state_of(const GpuHealth& health, const std::string& proc, std::int64_t our_pid);

// Those that a run on the GPU, or else on the processor, would suffer from.
std::vector<Finding> findings_for(BoxFacts box, bool runs_on_gpu);

}  // namespace moetune
