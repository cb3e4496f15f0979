// Where `tune --save` keeps the profile of a run, and what is kept there. Start at save_profile().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/launch_profile.h"

namespace moetune {

struct SavedProfile {
  std::string file;
  std::string remark;  // about the one that it replaced; empty: there was none, or the same
};

// Copies a profile into the registry: profiles/<device>-x<count>/<model>/<workload>.json,
// <device>-x<count>-24GiB where device_memory_bytes (0: no limit) held it to less than the device has. It
// replaces what is there, even a stronger profile: the user asked for it, and is told.
SavedProfile save_profile(const nlohmann::json& profile, std::int64_t device_memory_bytes);

struct RegisteredProfile {
  std::string name;  // <gpu>-x<count>/<model>/<workload>
  std::string file;
  LaunchProfile profile;
};
struct Registry {
  std::vector<RegisteredProfile> profiles;  // by name
  std::vector<std::string> left_out;        // what cannot be read, and why: it must not hide the others
};
Registry registered_profiles();

}  // namespace moetune
