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
#include "tuner/metric_facts.h"
#include "tuner/slowdown.h"
#include "tuner/staleness.h"

namespace moetune {
namespace {

constexpr auto no_profile = "no profile yet: 'moetune tune --save' copies the profile of a run here";

// "0.232 ms": of what the profile recommends, by its first objective; "per token" would make lines too long.
std::string objective_text(const LaunchProfile& profile) {
  if (profile.objectives.empty()) return "";
  const Metrics metrics = metrics_of(profile.recommended);
  const auto found = metrics.find(profile.objectives.front());
  if (found == metrics.end()) return "";
  const std::string text = value_text(found->first, found->second.value);
  return text.substr(0, text.find(" per "));
}

// The first of the fields that put it on its rung, and how many others differ: all of them, or their values,
// would not fit beside a name.
std::string weightiest_text(const Staleness& staleness) {
  const auto first = std::ranges::find(staleness.differences, staleness.rung, &FieldDifference::rung);
  if (first == staleness.differences.end()) return "nothing";
  const std::size_t others = staleness.differences.size() - 1;
  return others == 0 ? first->field : fmt::format("{}, {} more", first->field, others);
}

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
  Listing listing{.table = {.headings = {"profile", "measured", "recommended", "rounds"},
                            .alignment = {Align::left, Align::left, Align::left, Align::right}},
                  .when_empty = no_profile};
  constexpr std::size_t date_length = 10;
  Registry registry = registered_profiles();
  listing.left_out = std::move(registry.left_out);
  for (const RegisteredProfile& profile : registry.profiles) {
    const LaunchProfile& one = profile.profile;
    listing.table.rows.push_back({profile.name, one.measured_at.substr(0, date_length), objective_text(one),
                                  std::to_string(one.recommended.rounds.size())});
    listing.document.push_back({{"name", profile.name}, {"file", profile.file}});
  }
  if (!listing.table.rows.empty())
    listing.remarks = wrapped(
        fmt::format(
            "A name stands for its profile, as in 'moetune export NAME --server vllm'. rounds: of its "
            "final round; 'moetune ci' judges times by {} and more. --hardware auto: the nearest to "
            "this box first.",
            fewest_rounds),
        80, 0);
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
  Registry registry = registered_profiles();
  listing.left_out = std::move(registry.left_out);
  for (RegisteredProfile& profile : registry.profiles) {
    Staleness staleness = staleness_of(profile.profile, {hardware, ""});
    matches.push_back({std::move(profile), std::move(staleness)});
  }
  std::ranges::stable_sort(matches, {}, [](const Match& match) {
    return std::pair(match.staleness.rung, match.staleness.differences.size());
  });
  for (const Match& match : matches) {
    const std::string differs = match.staleness.differences_text();
    listing.table.rows.push_back(
        {match.profile.name, std::string(name_of(match.staleness.rung)), weightiest_text(match.staleness)});
    listing.document.push_back({{"name", match.profile.name},
                                {"file", match.profile.file},
                                {"rung", name_of(match.staleness.rung)},
                                {"differs", differs},
                                {"words", match.staleness.words()}});
  }
  if (!matches.empty())
    listing.remarks = wrapped(fmt::format("Nearest to this box: {}. {} --json has every difference of all.",
                                          matches.front().profile.name, matches.front().staleness.words()),
                              80, 0);
  return listing;
}

}  // namespace moetune
