// What an export has to know of a model beside the profile, and the flags of a run's points.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "engine/facts/model_spec.h"
#include "tuner/export/knob_names.h"
#include "tuner/export/point_flags.h"
#include "tuner/export/translate.h"

namespace moetune {

ExportModel export_model(const ModelSpec& spec, const LaunchProfile& profile, const KnobNames& names);

// By trial, of every point that the profile holds. Empty where the server tables are not installed. model:
// the checkpoint directory or preset that was tuned, as it was given; empty: its name in the profile leads to
// it.
std::map<std::int64_t, std::vector<PointFlags>> flags_of_points(const LaunchProfile& profile,
                                                                const std::string& model);

}  // namespace moetune
