#include "tuner/report/run_report.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/report_example.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

void write(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}
std::string contents_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// The example's run directory, as tune would have left it.
void write_run(const std::string& path) {
  const RunReport example = example_report();
  std::filesystem::create_directories(path);
  write(path + "/request.json", to_json_value(example.request).dump());
  write(path + "/hardware.json", example.hardware.dump());
  TrialLog log(path + "/trials.jsonl");
  for (const Trial& trial : example.trials) log.append(trial);
}

TEST(RunReport, ComesFromARunDirectoryAlone) {
  const TemporaryDirectory folder;
  write_run(folder / "run");
  const RunReport report = read_run(folder / "run");
  EXPECT_EQ(report.trials.size(), 4U);
  EXPECT_EQ(report.front, (std::vector<std::int64_t>{2, 1, 0}));
  EXPECT_EQ(report.objectives.size(), 2U);
  EXPECT_EQ(report.torn, "");
}

TEST(RunReport, RenderingTwiceGivesTheSameFilesAndLeavesTheLogAlone) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  write_run(path);
  const std::string log = contents_of(path + "/trials.jsonl");
  write_report_files(read_run(path));
  std::vector<std::string> first;
  for (const char* name : {"/front.json", "/front.csv", "/report.md", "/report.html"})
    first.push_back(contents_of(path + name));
  write_report_files(read_run(path));
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_FALSE(first[i].empty());
    EXPECT_EQ(contents_of(path + std::vector{"/front.json", "/front.csv", "/report.md", "/report.html"}[i]),
              first[i]);
  }
  EXPECT_EQ(contents_of(path + "/trials.jsonl"), log);
}

TEST(RunReport, ATornLineIsLeftOutAndSaid) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  write_run(path);
  const std::string log = contents_of(path + "/trials.jsonl");
  write(path + "/trials.jsonl", log.substr(0, log.size() - 20));
  const RunReport report = read_run(path);
  EXPECT_EQ(report.trials.size(), 3U);
  EXPECT_TRUE(has_text(report.torn, "trials.jsonl:4: the last line is torn"));
  EXPECT_EQ(contents_of(path + "/trials.jsonl").size(), log.size() - 20) << "a report changes nothing";
}

TEST(RunReport, WhatIsMissingOrWrongIsNamed) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  const auto complaint = [&] { return message_of<InputError>([&] { read_run(path); }); };
  EXPECT_TRUE(has_text(complaint(), "/run: is not a folder (accepted: a run directory"));
  std::filesystem::create_directories(path);
  EXPECT_TRUE(has_text(complaint(), "request.json: cannot be opened"));
  write_run(path);
  nlohmann::json request = to_json_value(example_report().request);
  request["gate"] = "perfect";
  write(path + "/request.json", request.dump());
  EXPECT_TRUE(has_text(complaint(), "perfect"));
  request["gate"] = "int8";
  request["objectives"] = {"tpot_ms", "beauty"};
  write(path + "/request.json", request.dump());
  EXPECT_TRUE(has_text(complaint(), "beauty"));
}

TEST(RunReport, ARunWithoutTrialsIsReadable) {
  const TemporaryDirectory folder;
  write_run(folder / "run");
  std::filesystem::remove(folder / "run/trials.jsonl");
  const RunReport report = read_run(folder / "run");
  EXPECT_TRUE(report.trials.empty());
  write_report_files(report);
  EXPECT_TRUE(has_text(contents_of(folder / "run/report.md"), "Nothing has been measured yet"));
}

}  // namespace
}  // namespace moetune
