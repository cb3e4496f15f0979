// What a night's check starts from and what it leaves: canaries, the part of a space that is searched again,
// and the profile that is kept with tonight's numbers.
#include "tuner/commands/retune.h"

#include <fstream>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tuner/commands/neighbour_watch.h"
#include "tuner/launch_profile.h"

namespace moetune {
namespace {

ProfilePoint point(const std::string& top_k, double tpot_ms) {
  ProfilePoint made;
  made.configuration = {{"top_k", top_k}, {"expert_quant", "int8"}};
  made.evidence = {
      {.metric = "tpot_ms", .value = tpot_ms, .low = {}, .high = {}, .p99 = {}, .n = 9, .stopped = ""}};
  made.rounds = {tpot_ms};
  return made;
}

Baseline baseline() {
  Baseline made;
  made.profile.recommended = point("7", 1.0);
  made.profile.default_point = point("8", 1.2);
  made.profile.runner_up = point("6", 1.1);
  made.profile.front = {point("7", 1.0), point("5", 0.9)};
  made.profile.reason = "it is the fastest";
  return made;
}

TEST(CheckedConfigurations, AreTheChoiceTheDefaultAndTheRunnerUpOnceEach) {
  const Study study;
  const auto checked = checked_configurations(baseline(), study);
  ASSERT_EQ(checked.size(), 3U);
  EXPECT_EQ(checked[0].role, NightlyRole::baseline);
  EXPECT_EQ(checked[1].configuration.values.at("top_k"), "8");
  EXPECT_EQ(checked[2].rounds_then, std::vector<double>{1.1});

  Baseline alone = baseline();
  alone.profile.default_point = alone.profile.recommended;
  alone.profile.runner_up.reset();
  const auto with_front = checked_configurations(alone, study);
  ASSERT_EQ(with_front.size(), 2U)
      << "a point of the front stands in: nothing is measured in turns with itself";
  EXPECT_EQ(with_front[1].configuration.values.at("top_k"), "5");
}

TEST(SpaceOfKnobs, KeepsEverythingElseAtTheChoice) {
  SearchSpace space;
  for (const char* name : {"top_k", "expert_quant"}) {
    Parameter parameter;
    parameter.name = name;
    parameter.values = {"1", "int8", "7", "8"};
    space.parameters.push_back(parameter);
  }
  const SearchSpace part = space_of_knobs(space, {"top_k"}, {{{"top_k", "7"}, {"expert_quant", "int8"}}});
  EXPECT_EQ(part.declared_size(), 4U);
  EXPECT_EQ(part.parameters[1].values, std::vector<std::string>{"int8"});
}

TEST(RefreshedProfile, HoldsTonightsNumbersForTheSameChoice) {
  const Baseline before = baseline();
  NightlyRecord record;
  record.started = "2026-11-30T03:00:00Z";
  NightlyPoint tonight;
  tonight.configuration.values = before.profile.recommended.configuration;
  tonight.now["tpot_ms"].value = 1.5;
  tonight.rounds_now = {1.4, 1.5, 1.6};
  NightlyPoint failed;
  failed.configuration.values = before.profile.runner_up->configuration;
  failed.failure = "crashed";
  record.input.points = {tonight, failed};
  Study study;
  study.hardware.build = "0.1.0 b";
  const LaunchProfile after = refreshed_profile(before.profile, record, study, "nothing moved");
  EXPECT_EQ(after.recommended.configuration, before.profile.recommended.configuration);
  EXPECT_EQ(after.recommended.evidence.at(0).value, 1.5);
  EXPECT_EQ(after.recommended.rounds, tonight.rounds_now);
  EXPECT_EQ(after.final_passes, 3);
  EXPECT_EQ(after.runner_up->evidence.at(0).value, 1.1) << "it failed tonight: what was known stays";
  EXPECT_EQ(after.hardware.build, "0.1.0 b");
  EXPECT_EQ(after.measured_at, record.started);
  EXPECT_NE(after.reason.find("nothing moved. Front and"), std::string::npos) << after.reason;
  EXPECT_TRUE(after.reason.ends_with("which said: it is the fastest")) << after.reason;
  EXPECT_EQ(refreshed_profile(after, record, study, "nothing moved").reason, after.reason)
      << "quotes no quotation";
}

TEST(Newcomers, AreThoseThatCameToTheGpuMeanwhile) {
  BoxFacts before;
  before.gpus.emplace_back();
  before.gpus[0].bus_id = "00000000:0A:00.0";
  before.gpus[0].processes = {{.pid = 7, .name = "jupyter", .bytes = 1 << 20, .is_ours = false}};
  BoxFacts after = before;
  after.gpus[0].processes.push_back({.pid = 8, .name = "train.py", .bytes = 2 << 20, .is_ours = false});
  after.gpus[0].processes.push_back({.pid = 9, .name = "", .bytes = 0, .is_ours = false});
  after.gpus[0].processes.push_back({.pid = 10, .name = "moetune", .bytes = 0, .is_ours = true});
  EXPECT_EQ(
      newcomers(before, after, "0000:0a:00.0"),
      (std::vector<std::string>{"train.py on the GPU (process 8, 2.00 MiB)",
                                "a process that cannot be seen from here on the GPU (process 9, 0 bytes)"}));
  EXPECT_TRUE(newcomers(before, after, "0000:0b:00.0").empty()) << "another GPU";
  EXPECT_TRUE(newcomers(after, after, "0000:0a:00.0").empty());
}

TEST(Arisen, IsWhatSpoilsMeasurementsAndDidNotBefore) {
  BoxFacts before;
  before.gpus.emplace_back();
  before.gpus[0].name = "H200";
  before.gpus[0].bus_id = "0000:0a:00.0";
  before.gpus[0].busy_percent = 0;
  before.gpus[0].processes = {{.pid = 7, .name = "jupyter", .bytes = 1 << 20, .is_ours = false}};
  before.swapping_mb_per_s = 0.0;
  EXPECT_TRUE(arisen(before, before, true, false).empty());
  BoxFacts after = before;
  after.gpus[0].busy_percent = 80;  // it sat there idle when the study began
  const std::vector<std::string> works = arisen(before, after, true, false);
  ASSERT_EQ(works.size(), 1U);
  EXPECT_NE(works[0].find("busy 80 % of the time, with jupyter (pid 7)"), std::string::npos) << works[0];
  EXPECT_TRUE(arisen(before, after, true, true).empty())
      << "a newcomer is named already, and may be who works";
  EXPECT_TRUE(arisen(before, after, false, false).empty()) << "a study on the processor does not mind";
  after.gpus[0].throttle_reasons = {"sw_thermal"};
  after.swapping_mb_per_s = 500.0;
  EXPECT_EQ(arisen(before, after, true, false).size(), 3U);
  EXPECT_EQ(arisen(before, after, false, false),
            std::vector<std::string>{"500 MB/s go to or come from swap"});
  EXPECT_TRUE(arisen(after, after, true, false).empty())
      << "it was so from the start, and --force measured all the same";
}

TEST(Baseline, SaysWhichCommandMakesOne) {
  const TemporaryDirectory folder;
  const auto complaint = [&](const std::string& path, const std::string& model) {
    return message_of<InputError>([&] { read_baseline(path, model); });
  };
  EXPECT_TRUE(has_text(complaint("", ""), "'moetune tune --run runs/baseline' makes one"));
  EXPECT_TRUE(has_text(complaint(folder.path().string(), "my model"),
                       "profile.json' is not there (accepted: a profile, the run directory it lies in, or a "
                       "name of 'moetune list profiles'; 'moetune tune "
                       "--model 'my model' --run runs/baseline' makes one"));
  LaunchProfile profile;
  profile.gate = "int8";
  std::ofstream(folder / "profile.json") << to_json_value(profile);
  EXPECT_TRUE(has_text(complaint(folder.path().string(), ""), "objectives: []"));
}

}  // namespace
}  // namespace moetune
