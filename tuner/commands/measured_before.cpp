#include "tuner/commands/measured_before.h"

#include <array>

#include "tuner/compare/comparison.h"

namespace moetune {

bool is_of_box(const HardwareFingerprint& hardware, const CatalogueBox& box,
               std::span<const CatalogueBox> catalogue) {
  const CatalogueBox* found = find_box(catalogue, hardware);
  return found != nullptr && found->name == box.name &&
         box_name(hardware, box.memory_bytes) == box_name(hardware);  // else it was held to less memory
}

std::string measured_before(const LaunchProfile& profile, const CatalogueBox& box,
                            std::span<const CatalogueBox> catalogue,
                            std::span<const RegisteredProfile> registered) {
  for (const RegisteredProfile& each : registered) {
    const std::array both{profile, each.profile};
    const bool is_same_work = each.profile.model_hash == profile.model_hash &&
                              differences(both, std::array<std::string, 2>{"", each.name}).empty();
    if (is_same_work && is_of_box(each.profile.hardware, box, catalogue)) return each.name;
  }
  return {};
}

}  // namespace moetune
