// Was what a prediction is made of measured after all, on such a box? Then its profile says more.
#pragma once

#include <span>
#include <string>

#include "engine/facts/launch_profile.h"
#include "tuner/commands/profile_registry.h"
#include "tuner/hardware_catalogue.h"

namespace moetune {

// Is it that box of the catalogue, with all of its memory?
bool is_of_box(const HardwareFingerprint& hardware, const CatalogueBox& box,
               std::span<const CatalogueBox> catalogue);

// Name of a registered profile of the same model, workload and gate from that box; empty: there is none.
std::string measured_before(const LaunchProfile& profile, const CatalogueBox& box,
                            std::span<const CatalogueBox> catalogue,
                            std::span<const RegisteredProfile> registered);

}  // namespace moetune
