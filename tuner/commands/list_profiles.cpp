// moetune list profiles: the registry, and what of it is nearest to this box.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/probe.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/listing.h"
#include "tuner/commands/profile_registry.h"
#include "tuner/launch_profile.h"
#include "tuner/staleness.h"

namespace moetune {
namespace {

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
  for (const RegisteredProfile& profile : registered_profiles()) {
    listing.table.rows.push_back({profile.name, load_launch_profile(profile.file).measured_at});
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
  for (const RegisteredProfile& profile : registered_profiles())
    matches.push_back({profile, staleness_of(load_launch_profile(profile.file), {hardware, ""})});
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
