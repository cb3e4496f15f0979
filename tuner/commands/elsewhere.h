// How far a profile carries to the box it is used on, from what that box says of itself at once: nothing is
// measured.
#pragma once

#include <string>

#include "engine/facts/hardware_fingerprint.h"
#include "kernels/gpu_health.h"
#include "tuner/launch_profile.h"

namespace moetune {

// "not measured on this box. Other device (...): no more than a first guess: ...", with the rung that matched
// and what it is worth (staleness.h). Empty: it is the box, as far as that shows without measuring; another
// build alone is not worth a word. host: of this box; gpus: those that can be seen here.
std::string elsewhere_words(const LaunchProfile& profile, const HardwareFingerprint& host,
                            const GpusSeen& gpus);

}  // namespace moetune
