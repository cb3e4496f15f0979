// The facts about this box that doctor judges. Start at look_at_box().
#pragma once

#include <string>
#include <vector>

#include "kernels/gpu_health.h"
#include "tuner/doctor/box_facts.h"
#include "tuner/doctor/findings.h"

namespace moetune {

// measures: also the rates of memory and link, which takes a second and, with GPU code, a context on the
// first GPU.
BoxFacts look_at_box(bool measures);

// As NVML tells it. proc: "/proc", for who belongs to whom.
GpuState state_of(const GpuHealth& health, const std::string& proc, std::int64_t our_pid);

// Those that a run on the GPU, or else on the processor, would suffer from.
std::vector<Finding> findings_for(BoxFacts box, bool runs_on_gpu);

}  // namespace moetune
