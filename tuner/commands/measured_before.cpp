#include "tuner/commands/measured_before.h"

#include <array>

#include "engine/facts/error.h"
#include "tuner/compare/comparison.h"
#include "tuner/launch_profile.h"

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
    try {
      const std::array both{profile, load_launch_profile(each.file)};
      const bool is_same_work = both[1].model_hash == profile.model_hash &&
                                differences(both, std::array<std::string, 2>{"", each.name}).empty();
      if (is_same_work && is_of_box(both[1].hardware, box, catalogue)) return each.name;
    } catch (const InputError&) {
      continue;
    }
  }
  return {};
}

}  // namespace moetune
