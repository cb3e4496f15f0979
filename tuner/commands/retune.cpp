#include "tuner/commands/retune.h"

#include <fmt/format.h>

#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/launch_profile.h"
#include "tuner/moved_knobs.h"
#include "tuner/profile_diff.h"

namespace moetune {
namespace {

// Of the check's time: with 60 s of measuring the budget is that of tune.
constexpr double budget_share = 3.0;
constexpr double timing_seconds = 2.0;

void finish(PartialFile& file, const std::string& text) {
  file.write(text.data(), text.size());
  file.finish();
}

// The space the baseline was searched in. Empty: this build does not have it any more.
std::optional<SearchSpace> space_of(const Study& study, const LaunchProfile& baseline,
                                    const Console& console) {
  try {
    SearchSpace space = space_for(study, baseline.space);
    if (space.hash() != baseline.space_hash)
      console.warn("the space " + space.name + " is not what it was when the baseline was made");
    return space;
  } catch (const InputError& error) {
    console.warn(fmt::format("nothing can be searched again: {}", error.what()));
    return std::nullopt;
  }
}

constexpr std::string_view kept_on = "Kept, and measured again on ";
constexpr std::string_view which_said = ", which said: ";

// A profile that was kept before quotes its search already: one quotation is enough, however many nights keep
// it.
std::string words_of_search(const std::string& reason) {
  const std::size_t quoted = reason.find(which_said);
  if (!reason.starts_with(kept_on) || quoted == std::string::npos) return reason;
  return reason.substr(quoted + which_said.size());
}

std::string why_nothing_is_searched(const MovedKnobs& moved) {
  return moved.pairs_compared > 0 ? "no knob acts otherwise than it did"
                                  : fmt::format(
                                        "no two configurations have {} rounds of both nights, so that no "
                                        "knob's effect can be judged",
                                        fewest_rounds);
}

// A search over the moved knobs alone. Empty: interrupted, or it recommends nothing.
std::optional<LaunchProfile> searched_again(const RetuneInput& input, const std::vector<std::string>& knobs,
                                            const Console& console, const Interruption& interruption) {
  const LaunchProfile& baseline = input.baseline.profile;
  const std::optional<SearchSpace> declared = space_of(input.study, baseline, console);
  if (!declared) return std::nullopt;
  NightlyStudy nightly;
  nightly.run_path = input.run_path + "-retune";
  nightly.baseline = &baseline;
  nightly.default_configuration = standard_of(input.baseline, input.study);
  for (const CheckedConfiguration& each : checked_configurations(input.baseline, input.study))
    nightly.given.push_back(each.configuration);
  nightly.space = space_of_knobs(*declared, knobs, {baseline.recommended.configuration});
  nightly.budget_seconds = budget_share * input.measuring_seconds;
  nightly.timing_seconds = timing_seconds;
  nightly.command_line = input.command_line;
  console.log(
      fmt::format("searching again over {}; run directory {}", fmt::join(knobs, ", "), nightly.run_path));
  const NightlyStudyResult result =
      run_nightly_study(nightly, input.study, input.target, console, interruption);
  if (result.interrupted || !result.conclusion.profile) return std::nullopt;
  return launch_profile_from_json(*result.conclusion.profile, nightly.run_path + "/profile.json");
}

}  // namespace

LaunchProfile refreshed_profile(const LaunchProfile& baseline, const NightlyRecord& record,
                                const Study& study, const std::string& why_kept) {
  LaunchProfile profile = baseline;
  profile.hardware = study.hardware;
  profile.ratio_to_default.reset();
  for (const NightlyPoint& point : record.input.points) {
    if (!point.failure.empty()) continue;
    const auto refresh = [&](ProfilePoint& kept) {
      if (point.configuration.values != kept.configuration) return;
      kept.evidence = evidence_of(point.now);
      kept.rounds = point.rounds_now;
    };
    refresh(profile.recommended);
    if (profile.default_point) refresh(*profile.default_point);
    if (profile.runner_up) refresh(*profile.runner_up);
  }
  profile.measured_at = record.started;
  profile.final_passes = std::ssize(profile.recommended.rounds);
  profile.reason =
      fmt::format("{}{}: {}. Front and trial numbers are those of the earlier search{}{}", kept_on,
                  record.started, why_kept, which_said, words_of_search(baseline.reason));
  return profile;
}

nlohmann::json retune(const RetuneInput& input, RetuneOutput& output, const Console& console,
                      const Interruption& interruption) {
  nlohmann::json document = {
      {"searched", nlohmann::json::array()}, {"reasons", nlohmann::json::array()}, {"profile", nullptr}};
  if (!input.record.input.other_work.empty()) {
    console.warn("no new profile: other work ran beside the check, so what moved is not known");
    return document;
  }
  std::optional<LaunchProfile> profile;
  if (input.is_whole_search) {
    if (input.measured.conclusion.profile)
      profile =
          launch_profile_from_json(*input.measured.conclusion.profile, input.run_path + "/profile.json");
  } else {
    const MovedKnobs moved =
        moved_knobs(input.record.input.points, input.record.input.objective, input.record.input.threshold);
    document["searched"] = moved.names;
    document["reasons"] = moved.reasons;
    for (const std::string& reason : moved.reasons) console.result(wrapped(reason, 80, 2));
    if (!moved.names.empty())
      profile = searched_again(input, moved.names, console, interruption);
    else if (std::ssize(input.record.input.points.front().rounds_now) >= fewest_rounds)
      profile = refreshed_profile(input.baseline.profile, input.record, input.study,
                                  why_nothing_is_searched(moved));
    console.result(moved.names.empty()
                       ? wrapped("Nothing is searched again: " + why_nothing_is_searched(moved) + ".", 80, 0)
                       : fmt::format("Searched again: {}.", fmt::join(moved.names, ", ")));
  }
  if (!profile) {
    console.warn("no new profile: nothing could be recommended");
    return document;
  }
  profile->other_work = input.other_work;
  const std::string diff = profile_diff(input.baseline.profile, *profile);
  finish(output.profile, to_json_value(*profile).dump(2) + "\n");
  finish(output.diff, diff);
  document["profile"] = output.profile.path();
  document["diff"] = output.diff.path();
  console.result(fmt::format("\nNew profile {}, what changed {}", output.profile.path(), output.diff.path()));
  return document;
}

}  // namespace moetune
