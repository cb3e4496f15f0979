#include "tuner/run_directory.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

RunRequest example_request() {
  RunRequest request;
  request.model = "tiny-moe";
  request.model_hash = "0123abcd";
  request.workload = "chat";
  request.space = "default";
  request.space_hash = "89ef";
  request.searcher = "nsga2";
  request.objectives = {"tpot_ms", "kl_mean"};
  request.seed = 18446744073709551615U;
  request.default_configuration = {{"top_k", 8}};
  request.conditions = {{"threads", 2}, {"prompt_tokens", 128}};
  request.gate = "int8";
  request.command = {"moetune", "tune", "--model", "a b\xff"};
  request.build = "0.1.0 abc";
  return request;
}

const json hardware{{"device", "cpu"}, {"cpu_name", "Example 9000"}, {"memory_gb_per_s", 12.5}};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(RunDirectory, WritesRequestAndHardwareOnce) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a/b/run";
  const RunDirectory run = RunDirectory::create(path, example_request(), hardware);
  EXPECT_TRUE(run.is_new());
  EXPECT_EQ(read_json_file(run.file("hardware.json")), hardware);
  const RunRequest back = run_request_from_json(read_json_file(run.file("request.json")), "request.json");
  EXPECT_EQ(back.seed, example_request().seed);
  EXPECT_EQ(back.objectives, example_request().objectives);
  EXPECT_EQ(back.command[3], "a b\xEF\xBF\xBD") << "not UTF-8: replaced";
}

TEST(RunDirectory, ASecondRunIsRefusedWhileTheFirstLives) {
  const TemporaryDirectory folder;
  std::optional<RunDirectory> first = RunDirectory::create(folder / "run", example_request(), hardware);
  const auto second = [&](bool resume) {
    return message_of<InputError>([&] {
      resume ? RunDirectory::resume(folder / "run", example_request(), hardware)
             : RunDirectory::create(folder / "run", example_request(), hardware);
    });
  };
  const std::string message = "another moetune is tuning there (process " + std::to_string(::getpid()) + ")";
  EXPECT_TRUE(has_text(second(false), message));
  EXPECT_TRUE(has_text(second(true), message));
  first.reset();
  EXPECT_TRUE(has_text(second(false), "is not empty"));
  EXPECT_FALSE(RunDirectory::resume(folder / "run", example_request(), hardware).is_new());
}

TEST(RunDirectory, AFolderWithOtherThingsIsNotTouched) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "precious.txt") << "mine";
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::create(folder.path(), example_request(), hardware); }),
      "is not empty (accepted: a new or empty folder; 'moetune tune --resume'"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"precious.txt"});
}

TEST(RunDirectory, AFolderThatCannotBeMadeIsBadInput) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "file") << "";
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::create(folder / "file/run", example_request(), hardware); }),
      "cannot be made"));
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::create(folder / "file", example_request(), hardware); }),
      "/file"));
}

TEST(RunDirectory, ResumeNamesTheFirstFieldOfTheStudyThatDiffers) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  {
    const RunDirectory run = RunDirectory::create(path, example_request(), hardware);
  }
  const auto complaint = [&](const std::function<void(RunRequest&)>& change, const json& machine = hardware) {
    RunRequest request = example_request();
    change(request);
    return message_of<InputError>([&] { RunDirectory::resume(path, request, machine); });
  };
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.model_hash = "ffff"; }),
                       "model_hash was \"0123abcd\" and is \"ffff\""));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.space_hash = "00"; }),
                       "space_hash was \"89ef\" and is \"00\""));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.workload = "agent"; }),
                       "workload was \"chat\" and is \"agent\""));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.searcher = "sobol"; }), "searcher was \"nsga2\""));
  EXPECT_TRUE(
      has_text(complaint([](RunRequest& r) { r.seed = 7; }), "seed was 18446744073709551615 and is 7"));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.objectives.pop_back(); }),
                       "objectives was [\"tpot_ms\",\"kl_mean\"]"));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.conditions["threads"] = 4; }),
                       "conditions.threads was 2 and is 4"));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.conditions["device_memory"] = "1GiB"; }),
                       "conditions.device_memory was null"));
  EXPECT_TRUE(has_text(complaint([](RunRequest& r) { r.default_configuration["top_k"] = 7; }),
                       "default_configuration.top_k was 8 and is 7"));
  EXPECT_TRUE(
      has_text(complaint([](RunRequest& r) { r.gate = "none"; }), "gate was \"int8\" and is \"none\""));
  EXPECT_TRUE(has_text(complaint([](RunRequest&) {}, {{"device", "cpu"}, {"cpu_name", "Other"}}),
                       "cpu_name was \"Example 9000\" and is \"Other\""));
}

TEST(RunDirectory, ResumeNamesTheOptionAndTheCommandThatBegan) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  RunRequest request = example_request();
  request.command = {"moetune", "tune", "--model", "a b"};
  {
    const RunDirectory run = RunDirectory::create(path, request, hardware);
  }
  const auto complaint = [&](const RunRequest& other, const json& machine) {
    return message_of<InputError>([&] {
      RunDirectory::resume(path, other, machine, [](const std::string& field) -> std::string {
        return field == "seed" ? "--seed" : field == "cpu_name" ? "" : "--cores";
      });
    });
  };
  RunRequest other = request;
  other.seed = 7;
  EXPECT_EQ(complaint(other, hardware),
            path +
                ": cannot be resumed: --seed was 18446744073709551615 and is 7 (accepted: the options that "
                "the run began with on the same machine: moetune tune --model 'a b'; or another run "
                "directory)");
  other.conditions["calibration"] = "follows from the model";
  other.model = "big-moe";
  EXPECT_TRUE(
      has_text(complaint(other, hardware), ": --cores was \"tiny-moe\" and is \"big-moe\" (model in "))
      << "the first cause";
  other = request;
  other.conditions["threads"] = 4;
  EXPECT_TRUE(has_text(complaint(other, hardware),
                       "--cores was 2 and is 4 (conditions.threads in " + path + "/request.json)"));
  EXPECT_TRUE(has_text(complaint(request, {{"device", "gpu"}, {"cpu_name", "Example 9000"}}),
                       "--cores was \"cpu\" and is \"gpu\" (device in " + path + "/hardware.json)"));
  EXPECT_TRUE(has_text(complaint(request, {{"device", "cpu"}, {"cpu_name", "Other"}}),
                       ": cpu_name was \"Example 9000\" and is \"Other\""));
}

TEST(RunDirectory, WhatDoesNotChangeAMeasurementMayDiffer) {
  const TemporaryDirectory folder;
  {
    const RunDirectory run = RunDirectory::create(folder / "run", example_request(), hardware);
  }
  RunRequest request = example_request();
  request.command = {"moetune", "tune", "--resume"};
  json machine = hardware;
  machine["memory_gb_per_s"] = 12.9;  // measured anew
  EXPECT_EQ(RunDirectory::resume(folder / "run", request, machine).notice(), "");
  request.build = "0.2.0";
  EXPECT_TRUE(has_text(RunDirectory::resume(folder / "run", request, machine).notice(),
                       "begun with build 0.1.0 abc, going on with 0.2.0"));
  EXPECT_EQ(read_json_file(folder / "run/request.json")["build"], "0.1.0 abc") << "written once";
}

TEST(RunDirectory, KilledBeforeItBeganItBeginsAnew) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "run");
  std::ofstream(folder / "run/lock") << "1\n";
  std::ofstream(folder / "run/hardware.json") << "{}";
  std::ofstream(folder / "run/request.json.new") << "{\"half";
  const RunDirectory run = RunDirectory::resume(folder / "run", example_request(), hardware);
  EXPECT_TRUE(run.is_new());
  EXPECT_TRUE(has_text(run.notice(), "nothing to resume"));
  EXPECT_TRUE(fs::exists(folder / "run/request.json"));
}

TEST(RunDirectory, AnEmptyFolderIsBegunLoudly) {
  const TemporaryDirectory folder;
  const RunDirectory run = RunDirectory::resume(folder.path(), example_request(), hardware);
  EXPECT_TRUE(run.is_new());
  EXPECT_TRUE(has_text(run.notice(), "nothing to resume (no run began there yet)"));
}

TEST(RunDirectory, ResumeMakesNoFolder) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::resume(folder / "typo", example_request(), hardware); }),
      "typo: no run there to resume: no such folder (accepted: the run directory of an earlier moetune tune; "
      "without --resume one is begun)"));
  EXPECT_FALSE(fs::exists(folder / "typo"));
}

TEST(RunDirectory, ResumeTouchesNoFolderThatNeverWasARun) {
  // hardware.json without a lock was not written by a run: that takes its lock first.
  for (const char* name : {"report.md", "notes.txt", "hardware.json", "profile.json", "requests"}) {
    const TemporaryDirectory folder;
    std::ofstream(folder / name) << "mine";
    EXPECT_TRUE(has_text(
        message_of<InputError>([&] { RunDirectory::resume(folder.path(), example_request(), hardware); }),
        std::string("no run there to resume: it holds '") + name + "', but no request.json"));
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{name});
  }
  const TemporaryDirectory folder;
  std::ofstream(folder / "lock") << "1\n";
  std::ofstream(folder / "report.md") << "mine";
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::resume(folder.path(), example_request(), hardware); }),
      "it holds 'report.md'"));
  EXPECT_EQ(names_in(folder.path()).size(), 2U);
}

TEST(RunDirectory, TrialsWithoutARequestAreNotAdopted) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "trials.jsonl") << "";
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { RunDirectory::resume(folder.path(), example_request(), hardware); }),
      "request.json: is missing although there are trials"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"trials.jsonl"});
}

TEST(RunDirectory, DamagedRequestIsNamed) {
  const TemporaryDirectory folder;
  {
    const RunDirectory run = RunDirectory::create(folder / "run", example_request(), hardware);
  }
  for (const char* text : {"", "{", "[]", "{\"schema\":1}", "{\"schema\":2}"}) {
    std::ofstream(folder / "run/request.json") << text;
    EXPECT_TRUE(has_text(
        message_of<InputError>([&] { RunDirectory::resume(folder / "run", example_request(), hardware); }),
        "request.json"))
        << text;
  }
}

TEST(NewRunPath, IsSafeAndFree) {
  const TemporaryDirectory folder;
  const std::string runs = folder.path();
  const std::string first = new_run_path(runs, "../evil model\n", "ch*at");
  const std::string name = first.substr(runs.size() + 1);
  EXPECT_TRUE(name.ends_with("Z-.._evil_model_-ch_at")) << name;
  EXPECT_EQ(name.find('/'), std::string::npos);
  fs::create_directory(first);
  const std::string second = new_run_path(runs, "../evil model\n", "ch*at");
  EXPECT_FALSE(fs::exists(second));
}

TEST(LinkLatest, PointsAtTheNewestRun) {
  const TemporaryDirectory folder;
  const std::string runs = folder / "runs";
  for (const char* name : {"first", "second"}) {
    fs::create_directories(runs + "/" + name);
    link_latest(runs, runs + "/" + name);
    EXPECT_EQ(fs::read_symlink(runs + "/latest"), name) << "relative: the folder may be moved";
  }
  fs::create_directory(folder / "elsewhere");
  link_latest(runs, folder / "elsewhere");
  EXPECT_TRUE(fs::equivalent(runs + "/latest", folder / "elsewhere"));
  EXPECT_EQ(names_in(runs).size(), 3U) << "no leftovers";
}

TEST(LinkLatest, DoesNotReplaceSomethingElse) {
  const TemporaryDirectory folder;
  fs::create_directories(folder / "runs/latest/precious");
  fs::create_directories(folder / "runs/run");
  EXPECT_THROW(link_latest(folder / "runs", folder / "runs/run"), std::runtime_error);
  EXPECT_TRUE(fs::exists(folder / "runs/latest/precious"));
  EXPECT_EQ(names_in(folder / "runs").size(), 2U) << "no leftovers";
}

}  // namespace
}  // namespace moetune
