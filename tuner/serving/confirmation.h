// What a server's times say about a profile's: confirmed, refuted or indeterminate. Start at judged().
#pragma once

#include <string>

#include "engine/facts/launch_profile.h"
#include "tuner/measurement.h"

namespace moetune {

// The claim under test is that the server reaches with this configuration what our engine reached: tpot_ms
// (ttft_ms where an answer has one token) at most `tolerance` above, and the workload's service level. The
// server's 95 % interval decides: wholly within is confirmed, wholly beyond is refuted, anything else (also
// no interval) indeterminate. Being faster refutes nothing.
Confirmation judged(const LaunchProfile& profile, const Metrics& served, double tolerance);

}  // namespace moetune
