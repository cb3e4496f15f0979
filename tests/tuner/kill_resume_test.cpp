// Whatever happens to a run, resuming it gives the trials of a run that nothing happened to:
// tests/tuner/support/ tune_synthetic is killed, interrupted and run out of disk at random moments. Start at
// KillResume.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/trials.h"
#include "tuner/searcher.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int trials = 16;
constexpr int kills = 20;

std::string contents_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// One run directory of tune_synthetic, and the random moments at which something happens to it.
class SyntheticRun {
 public:
  SyntheticRun(const TemporaryDirectory& folder, const std::string& name, const nlohmann::json& settings,
               unsigned seed)
      : path_(folder / name),
        settings_(folder / (name + ".json")),
        output_(folder / (name + ".txt")),
        random_(seed) {
    std::ofstream(settings_) << settings;
  }

  std::vector<std::string> command() const {
    std::vector<std::string> words{tune_synthetic_program(), "tune", path_, settings_};
    if (fs::exists(path_)) words.emplace_back("--resume");
    return words;
  }
  ChildProgram start() const { return ChildProgram(command(), output_); }
  int finish() const {
    ChildProgram program(command(), output_);
    return program.wait();
  }
  milliseconds moment(milliseconds at_most) {
    return milliseconds(std::uniform_int_distribution<long>(0, at_most.count())(random_));
  }
  bool coin() { return std::bernoulli_distribution(0.5)(random_); }

  std::string log_file() const { return path_ + "/trials.jsonl"; }
  // The search's trials, then the turns of the final round.
  std::vector<Trial> logged() const {
    if (!fs::exists(log_file())) return {};
    TrialLogContents log = read_trial_log(log_file());
    log.trials.insert(log.trials.end(), log.measured_again.begin(), log.measured_again.end());
    return log.trials;
  }
  std::string output() const { return contents_of(output_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string settings_;
  std::string output_;
  std::mt19937 random_;
};

nlohmann::json settings_for(const std::string& searcher) {
  return {{"searcher", searcher},
          {"seed", 7},
          {"max_trials", trials},
          {"limit_seconds", 60},
          {"final_round", true},
          {"target", {{"delay_ms", 8}, {"fail", {{{"when", {{"top_k", 5}}}, {"how", "wrong_output"}}}}}}};
}

std::vector<std::string> undisturbed_trials(const TemporaryDirectory& folder, const std::string& searcher) {
  const SyntheticRun run(folder, "undisturbed", settings_for(searcher), 0);
  EXPECT_EQ(run.finish(), 0) << run.output();
  return without_times(run.logged());
}

// How long a run takes from its start to its first trial: moments are drawn from a range that reaches well
// beyond it.
milliseconds start_up(const TemporaryDirectory& folder) {
  nlohmann::json settings = settings_for("walking");
  settings["max_trials"] = 1;
  settings["final_round"] = false;
  const SyntheticRun run(folder, "start_up", settings, 0);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run.finish(), 0);
  return std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - begin);
}

std::vector<std::string> all_searchers() {
  std::vector<std::string> names = searcher_names();
  names.emplace_back("walking");
  return names;
}

class KillResume : public testing::TestWithParam<std::string> {};

TEST_P(KillResume, TwentyKillsOfTunerAndWorkerChangeNothing) {
  const TemporaryDirectory folder;
  const std::vector<std::string> expected = undisturbed_trials(folder, GetParam());
  ASSERT_GE(expected.size(), static_cast<std::size_t>(trials + 2 * 9)) << "with a final round";
  const milliseconds longest = 2 * start_up(folder) + 40ms;

  nlohmann::json settings = settings_for(GetParam());
  settings["target"]["audit"] = folder / "audit";
  SyntheticRun run(folder, "disturbed", settings, 20261129);
  int killed = 0;
  std::size_t survived = 0;
  while (killed < kills) {
    ChildProgram tuner(run.command(), folder / "disturbed.txt");
    // A worker at most once in the tuner's life: killed twice in one trial it would rightly be recorded as
    // crashed.
    if (run.coin() && !tuner.wait(run.moment(longest))) {
      for (const pid_t worker : children_of(tuner.pid())) {
        ::kill(worker, SIGKILL);
        ++killed;
      }
    }
    if (!tuner.wait(run.moment(longest))) ++killed;
    const std::vector<pid_t> workers = children_of(tuner.pid());
    tuner.signal(SIGKILL);
    tuner.wait();
    for (const pid_t worker : workers)
      EXPECT_TRUE(is_gone_within(worker, 10s)) << "a worker outlived its tuner";
    const std::size_t now = run.logged().size();
    EXPECT_GE(now, survived) << "a trial was lost";
    survived = now;
    // Done before enough kills: from the start again, so that there is something left to disturb.
    if (now == expected.size()) {
      EXPECT_EQ(without_times(run.logged()), expected);
      fs::remove_all(run.path());
      fs::remove(folder / "audit");
      survived = 0;
    }
  }
  EXPECT_EQ(run.finish(), 0) << run.output();
  EXPECT_EQ(without_times(run.logged()), expected) << run.output();
  // Measured again were only those that a kill hit: no trial that was in the log.
  const std::string audit = contents_of(folder / "audit");
  EXPECT_LE(std::count(audit.begin(), audit.end(), '\n'), std::ssize(expected) + kills + 1);
}

INSTANTIATE_TEST_SUITE_P(EverySearcher, KillResume, testing::ValuesIn(all_searchers()),
                         [](const auto& searcher) { return searcher.param; });

TEST(Interrupted, AtAnyMomentItEndsWith130AndResumes) {
  const TemporaryDirectory folder;
  const std::vector<std::string> expected = undisturbed_trials(folder, "walking");
  const milliseconds longest = 2 * start_up(folder) + 40ms;
  SyntheticRun run(folder, "interrupted", settings_for("walking"), 99);
  int interrupted = 0;
  for (int life = 0; life < 20 * kills && interrupted < kills; ++life) {
    // Done before enough interruptions: from the start again.
    if (run.logged().size() == expected.size()) fs::remove_all(run.path());
    ChildProgram tuner(run.command(), folder / "interrupted.txt");
    if (tuner.wait(run.moment(longest))) continue;
    const std::vector<pid_t> workers = children_of(tuner.pid());
    const int number = run.coin() ? SIGINT : SIGTERM;
    tuner.signal(number);
    const auto status = tuner.wait(20s);
    ASSERT_TRUE(status) << "it did not end";
    // Before main() has set up anything the signal has its usual effect, after the last trial it comes too
    // late.
    ASSERT_TRUE(*status == 130 || *status == -number || *status == 0) << *status << run.output();
    for (const pid_t worker : workers) EXPECT_TRUE(is_gone_within(worker, 10s));
    run.logged();  // intact, or it throws
    interrupted += *status == 130 ? 1 : 0;
  }
  EXPECT_EQ(interrupted, kills);
  EXPECT_EQ(run.finish(), 0) << run.output();
  EXPECT_EQ(without_times(run.logged()), expected);
}

TEST(SecondRun, IsRefusedWhileTheFirstRuns) {
  const TemporaryDirectory folder;
  nlohmann::json settings = settings_for("walking");
  settings["target"] = {{"audit", folder / "audit"},
                        {"fail", {{{"when", nlohmann::json::object()}, {"how", "hang"}}}}};
  const SyntheticRun run(folder, "run", settings, 1);
  ChildProgram first = run.start();
  while (!fs::exists(folder / "audit")) ASSERT_FALSE(first.wait(5ms)) << run.output();
  for (const bool resume : {false, true}) {
    std::vector<std::string> command{tune_synthetic_program(), "tune", run.path(), folder / "run.json"};
    if (resume) command.emplace_back("--resume");
    ChildProgram second(command, folder / "second.txt");
    EXPECT_EQ(second.wait(), 2);
  }
  EXPECT_TRUE(has_text(contents_of(folder / "second.txt"),
                       "another moetune is tuning there (process " + std::to_string(first.pid()) + ")"));
  EXPECT_FALSE(first.wait(0ms)) << "and the first one is not disturbed";
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 130);
}

TEST(TunerDeath, EndsAWorkerThatIsBusy) {
  const TemporaryDirectory folder;
  nlohmann::json settings = settings_for("walking");
  settings["target"] = {{"audit", folder / "audit"},
                        {"fail", {{{"when", nlohmann::json::object()}, {"how", "hang"}}}}};
  const SyntheticRun run(folder, "run", settings, 1);
  ChildProgram tuner = run.start();
  while (!fs::exists(folder / "audit")) ASSERT_FALSE(tuner.wait(5ms)) << run.output();
  const std::vector<pid_t> workers = children_of(tuner.pid());
  ASSERT_EQ(workers.size(), 1U);
  tuner.signal(SIGKILL);
  EXPECT_TRUE(is_gone_within(workers[0], 10s));
}

TEST(FullDisk, EndsWith1AndResumes) {
  const TemporaryDirectory folder;
  const std::vector<std::string> expected = undisturbed_trials(folder, "walking");
  const SyntheticRun run(folder, "full", settings_for("walking"), 1);
  // ulimit counts in blocks of 512 or 1024 bytes, depending on the shell: small either way.
  std::string limited = "ulimit -f 6; exec";
  for (const std::string& word : run.command()) limited += " '" + word + "'";
  ChildProgram tuner({"sh", "-c", limited}, folder / "full.txt");
  EXPECT_EQ(tuner.wait(), 1) << run.output();
  EXPECT_TRUE(has_text(run.output(), "trials.jsonl: trial "));
  EXPECT_TRUE(has_text(run.output(), "could not be written: File too large"));
  const std::size_t before = run.logged().size();
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, expected.size());
  EXPECT_EQ(run.finish(), 0) << run.output();
  EXPECT_EQ(without_times(run.logged()), expected);
  EXPECT_FALSE(has_text(run.output(), "torn"));
}

}  // namespace
}  // namespace moetune
