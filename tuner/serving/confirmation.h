// What a server's times say about a profile's: confirmed, refuted or indeterminate, and the same in words for
// everything that shows a profile. Start at judged().
#pragma once

#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/measurement.h"

namespace moetune {

// The claim under test is that the server reaches with this configuration what our engine reached: tpot_ms
// (ttft_ms where an answer has one token) at most `tolerance` above, and the workload's service level. The
// server's 95 % interval decides: wholly within is confirmed, wholly beyond is refuted, anything else (also
// no interval) indeterminate. Being faster refutes nothing.
Confirmation judged(const LaunchProfile& profile, const Metrics& served, double tolerance);

// "REFUTED by http://box:8000 (model m, workload chat, 2026-11-30T03:00:00Z): tpot_ms ...".
std::string confirmation_text(const Confirmation& confirmation);
// One line for the last word of each server with each model and workload, newest first.
std::vector<std::string> confirmation_lines(const std::vector<Confirmation>& confirmations);
bool is_refuted(const std::vector<Confirmation>& confirmations);  // by the last word of any of them

}  // namespace moetune
