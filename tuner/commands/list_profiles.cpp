// moetune list profiles: the registry, and what of it is nearest to this box.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/data_files.h"
#include "engine/facts/error.h"
#include "engine/probe.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/listing.h"
#include "tuner/launch_profile.h"
#include "tuner/staleness.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

struct RegisteredProfile {
  std::string name;  // <gpu>-x<count>/<model>/<workload>
  std::string file;
  LaunchProfile profile;
};

// What cannot be read is named in left_out: one broken file must not hide the others.
std::vector<RegisteredProfile> registered_profiles(std::vector<std::string>& left_out) {
  std::vector<RegisteredProfile> profiles;
  const std::string folder = profiles_folder();
  if (folder.empty()) return profiles;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    // Prices, the catalogue and schemas lie elsewhere.
    const fs::path inside = fs::relative(entry.path(), folder);
    if (!entry.is_regular_file() || entry.path().extension() != ".json" ||
        std::distance(inside.begin(), inside.end()) != 3)
      continue;
    const std::string file = entry.path().string();
    try {
      profiles.push_back({(inside.parent_path() / inside.stem()).string(), file, load_launch_profile(file)});
    } catch (const std::exception& error) {
      left_out.emplace_back(error.what());
    }
  }
  std::ranges::sort(profiles, {}, &RegisteredProfile::name);
  std::ranges::sort(left_out);
  return profiles;
}

constexpr auto no_profile = "no profile yet: 'moetune tune --save' copies the profile of a run here";

HardwareFingerprint this_box(const std::string& asked) {
  if (asked != "auto" && asked != "cpu" && asked != "cuda")
    throw InputError("--hardware", "'" + asked + "'", "auto, cpu, cuda");
  const DeviceChoice device = choose_device(asked, [] { return ask_for_gpu(); });
  HardwareFingerprint hardware = probe_hardware(0);
  if (device.gpu) describe_gpu(hardware, *device.gpu);
  return hardware;
}

}  // namespace

// Its file is NAME.json in the folder of profiles; in full it stands in the document only, because paths are
// long.
Listing list_profiles() {
  Listing listing{.table = {.headings = {"profile", "measured"}}, .when_empty = no_profile};
  for (const RegisteredProfile& profile : registered_profiles(listing.left_out)) {
    listing.table.rows.push_back({profile.name, profile.profile.measured_at});
    listing.document.push_back({{"name", profile.name}, {"file", profile.file}});
  }
  return listing;
}

// The nearest to this box first, with the rung that each stands on.
Listing list_profiles_for(const std::string& asked) {
  struct Match {
    RegisteredProfile profile;
    Staleness staleness;
  };
  Listing listing{.table = {.headings = {"profile", "match", "what differs"}}, .when_empty = no_profile};
  const HardwareFingerprint hardware = this_box(asked);
  std::vector<Match> matches;
  for (RegisteredProfile& profile : registered_profiles(listing.left_out)) {
    Staleness staleness = staleness_of(profile.profile, {hardware, ""});
    matches.push_back({std::move(profile), std::move(staleness)});
  }
  std::ranges::stable_sort(matches, {}, [](const Match& match) {
    return std::pair(match.staleness.rung, match.staleness.differences.size());
  });
  for (const Match& match : matches) {
    const std::string differs = match.staleness.differences_text();
    listing.table.rows.push_back({match.profile.name, std::string(name_of(match.staleness.rung)),
                                  differs.empty() ? "nothing" : differs});
    listing.document.push_back({{"name", match.profile.name},
                                {"file", match.profile.file},
                                {"rung", name_of(match.staleness.rung)},
                                {"differs", differs},
                                {"words", match.staleness.words()}});
  }
  if (!matches.empty())
    listing.remarks = wrapped(
        fmt::format("Nearest to this box: {}, rung '{}'. {}", matches.front().profile.name,
                    name_of(matches.front().staleness.rung), trust_text(matches.front().staleness.rung)),
        80, 0);
  return listing;
}

}  // namespace moetune
