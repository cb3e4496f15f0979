// The loop around searcher, runner and log, with real workers and searchers that a test can look into.
#include "tuner/tune.h"

#include <signal.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/child_program.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/trials.h"
#include "tests/tuner/support/walking_searcher.h"
#include "tuner/choose.h"

namespace moetune {
namespace {
using Stop = TuneResult::Stop;

Configuration with_top_k(int top_k) { return {{{"top_k", std::to_string(top_k)}}}; }

// Asks for what it was given, in that order, and keeps what it was told.
class ListSearcher : public Searcher {
 public:
  explicit ListSearcher(std::vector<Configuration> list) : list_(std::move(list)) {}
  std::optional<Configuration> ask() override {
    if (next_ == list_.size()) return std::nullopt;
    return list_[next_++];
  }
  void tell(const Trial& trial) override { told.push_back(trial); }
  std::vector<Trial> told;

 private:
  std::vector<Configuration> list_;
  std::size_t next_ = 0;
};

class StubbornSearcher : public Searcher {
 public:
  std::optional<Configuration> ask() override { return with_top_k(8); }
  void tell(const Trial&) override {}
};

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    request.default_configuration = with_top_k(8);
    request.objectives = objectives;
    request.seed = 5;
    request.on_message = [this](const std::string& line) { messages += line + "\n"; };
    runner.worker_command = {tune_synthetic_program(), "worker"};
    runner.setup = {{"audit", folder / "audit"}};
  }
  TuneResult run(Searcher& searcher) {
    TrialLog log(log_file);
    return tune(request, searcher, log, runner, interruption);
  }
  std::vector<Trial> logged() const { return read_trial_log(log_file).trials; }
  std::size_t measurements() const {
    std::ifstream stream(folder / "audit");
    std::size_t count = 0;
    for (std::string line; std::getline(stream, line);) ++count;
    return count;
  }

  const TemporaryDirectory folder;
  const std::string log_file = folder / "trials.jsonl";
  const std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean");
  const Interruption interruption;
  TuneRequest request;
  TrialRunnerSettings runner;
  std::string messages;
};

TEST_F(TuneTest, MeasuresTheDefaultFirstAndTellsEverything) {
  ListSearcher searcher({with_top_k(3), with_top_k(7)});
  const TuneResult result = run(searcher);
  EXPECT_EQ(result.stop, Stop::searcher_done);
  const std::vector<Trial> trials = logged();
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials[0].configuration, with_top_k(8));
  EXPECT_EQ(trials[1].configuration, with_top_k(3));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trials[i].seed, trial_seed(5, static_cast<std::int64_t>(i)));
    EXPECT_EQ(text_of(searcher.told.at(i)), text_of(trials[i])) << "told what the log holds";
  }
}

TEST_F(TuneTest, NothingIsMeasuredTwice) {
  ListSearcher searcher({with_top_k(8), with_top_k(3), with_top_k(3), with_top_k(8), with_top_k(7)});
  run(searcher);
  EXPECT_EQ(logged().size(), 3U);
  EXPECT_EQ(measurements(), 3U);
  EXPECT_EQ(searcher.told.size(), 6U) << "but every ask is answered";
  EXPECT_EQ(text_of(searcher.told[3]), text_of(searcher.told[2]));
}

TEST_F(TuneTest, ASearcherThatOnlyRepeatsItselfEnds) {
  StubbornSearcher searcher;
  EXPECT_EQ(run(searcher).stop, Stop::searcher_done);
  EXPECT_EQ(logged().size(), 1U);
}

TEST_F(TuneTest, WhatCannotRunIsRecordedWithoutAWorker) {
  request.objection = [](const Configuration& configuration) -> std::optional<std::string> {
    if (configuration == with_top_k(3)) return "needs 12 bytes more";
    return std::nullopt;
  };
  ListSearcher searcher({with_top_k(3)});
  run(searcher);
  const Trial trial = logged().at(1);
  EXPECT_EQ(trial.outcome, Outcome::infeasible);
  EXPECT_EQ(trial.reason, "needs 12 bytes more");
  EXPECT_EQ(measurements(), 1U);
  EXPECT_EQ(searcher.told.at(1).outcome, Outcome::infeasible);
}

TEST_F(TuneTest, StopsAtTheNumberOfTrials) {
  request.max_trials = 2;
  ListSearcher searcher({with_top_k(3), with_top_k(7), with_top_k(6)});
  const TuneResult result = run(searcher);
  EXPECT_EQ(result.stop, Stop::max_trials);
  EXPECT_EQ(result.why, "2 trials were asked for and done");
  EXPECT_EQ(logged().size(), 2U);
}

TEST_F(TuneTest, TheBudgetCountsEarlierSittings) {
  {
    TrialLog log(log_file);
    Trial long_one;
    long_one.configuration = with_top_k(8);
    long_one.seed = trial_seed(5, 0);
    long_one.seconds = 100.0;
    log.append(long_one);
  }
  request.budget_seconds = 99.0;
  ListSearcher searcher({with_top_k(3)});
  const TuneResult result = run(searcher);
  EXPECT_EQ(result.stop, Stop::budget);
  EXPECT_EQ(result.measuring_seconds, 100.0);
  EXPECT_EQ(logged().size(), 1U);

  request.budget_seconds = 101.0;
  ListSearcher again({with_top_k(3)});
  EXPECT_EQ(run(again).stop, Stop::searcher_done);
  EXPECT_EQ(logged().size(), 2U);
}

TEST_F(TuneTest, ResumingFromEveryPrefixGivesTheSameTrials) {
  std::vector<Configuration> all;
  for (int top_k = 1; top_k <= 8; ++top_k)
    for (const char* quant : {"bf16", "int8", "int4"})
      all.push_back({{{"top_k", std::to_string(top_k)}, {"expert_quant", quant}}});
  request.default_configuration = all.front();
  runner.setup = {{"fail", {{{"when", {{"top_k", 5}}}, {"how", "wrong_output"}}}}};
  request.max_trials = 12;
  WalkingSearcher undisturbed(all, 3);
  run(undisturbed);
  const std::vector<Trial> expected = logged();
  ASSERT_EQ(expected.size(), 12U);
  for (std::size_t kept = 0; kept <= expected.size(); ++kept) {
    std::ofstream stream(log_file, std::ios::binary);
    for (std::size_t i = 0; i < kept; ++i) stream << to_log_line(expected[i]);
    stream.close();
    WalkingSearcher resumed(all, 3);
    run(resumed);
    EXPECT_EQ(without_times(logged()), without_times(expected)) << kept;
  }
}

// Measures all it is given again.
std::vector<std::int64_t> everyone(std::span<const Trial> trials) {
  std::vector<std::int64_t> numbers;
  for (const Trial& trial : trials) numbers.push_back(trial.number);
  return numbers;
}

class FinalRoundTest : public TuneTest {
 protected:
  FinalRoundTest() {
    request.finalists = everyone;
    request.timing_setup = {{"audit", folder / "audit"}, {"timing_only", true}};
  }
  TuneResult search() {
    ListSearcher searcher({with_top_k(7), with_top_k(6)});
    return run(searcher);
  }
  std::vector<Trial> turns() const { return read_trial_log(log_file).measured_again; }
};

TEST_F(FinalRoundTest, MeasuresTimesInTurnsInFreshProcesses) {
  search();
  EXPECT_EQ(logged().size(), 3U) << "the search's trials are as without it";
  const std::vector<Trial> again = turns();
  ASSERT_EQ(again.size(), 27U);
  for (const Trial& trial : again) {
    EXPECT_TRUE(trial.metrics.contains("tpot_ms"));
    EXPECT_FALSE(trial.metrics.contains("kl_mean"));
    EXPECT_EQ(trial.seed, again[static_cast<std::size_t>(3 * trial.turn->pass)].seed)
        << "one for all of a pass";
  }
  EXPECT_NE(again[0].seed, again[3].seed);
  std::ifstream audit(folder / "audit");
  std::map<std::string, int> measured_by;  // process
  for (std::string configuration, process; audit >> configuration >> process;) ++measured_by[process];
  EXPECT_EQ(measured_by.size(), 1U + 27U) << "one for the search, one for each turn";
}

TEST_F(FinalRoundTest, ResumingFromEveryPrefixGivesTheSameLog) {
  search();
  const TrialLogContents whole = read_trial_log(log_file);
  std::vector<std::string> lines;
  for (const Trial& trial : whole.trials) lines.push_back(to_log_line(trial));
  for (const Trial& trial : whole.measured_again) lines.push_back(to_log_line(trial));
  for (const std::size_t kept : {1U, 3U, 4U, 6U, 17U, 29U, 30U}) {
    std::ofstream stream(log_file, std::ios::binary);
    for (std::size_t i = 0; i < kept; ++i) stream << lines[i];
    stream.close();
    const std::size_t before = measurements();
    search();
    EXPECT_EQ(measurements() - before, lines.size() - kept) << "nothing is measured twice";
    EXPECT_EQ(without_times(logged()), without_times(whole.trials)) << kept;
    EXPECT_EQ(without_times(turns()), without_times(whole.measured_again)) << kept;
  }
}

TEST_F(FinalRoundTest, ALongerSearchHasItsOwnRoundAndTheSameTrials) {
  request.max_trials = 2;
  search();
  EXPECT_EQ(turns().size(), 18U);
  request.max_trials = 3;
  search();
  EXPECT_EQ(turns().size(), 18U + 27U);
  EXPECT_EQ(turns().back().turn->after, 3);
  const std::vector<Trial> in_two_sittings = logged();
  std::remove(log_file.c_str());
  search();
  EXPECT_EQ(without_times(logged()), without_times(in_two_sittings));
}

TEST_F(FinalRoundTest, KeepsAShareOfTheBudget) {
  {
    TrialLog log(log_file);
    Trial long_one;
    long_one.configuration = with_top_k(8);
    long_one.seed = trial_seed(5, 0);
    long_one.seconds = 76.0;
    long_one.metrics["tpot_ms"].value = 1.0;
    log.append(long_one);
  }
  request.budget_seconds = 100.0;
  const TuneResult result = search();
  EXPECT_EQ(result.stop, Stop::budget);
  EXPECT_EQ(result.why, "the search's 75 s of the budget of 100 s of measuring time are spent");
  EXPECT_EQ(logged().size(), 1U);
  EXPECT_TRUE(turns().empty()) << "one alone has nobody to be compared with";
}

TEST_F(FinalRoundTest, AnInterruptionInItIsOneOfTheRun) {
  request.on_status = [&](const TuneStatus& status) {
    if (status.final_done == 5) ::raise(SIGTERM);
  };
  const TuneResult result = search();
  EXPECT_EQ(result.stop, Stop::interrupted);
  EXPECT_EQ(turns().size(), 5U);
  EXPECT_TRUE(children_of(::getpid()).empty());
}

TEST_F(FinalRoundTest, SaysHowFarItIs) {
  std::int64_t last = -1;
  std::optional<double> left;
  std::vector<std::string> best;
  request.on_status = [&](const TuneStatus& status) {
    if (status.final_most == 0) return;
    EXPECT_EQ(status.final_most, 27);
    EXPECT_GE(status.final_done, last);
    EXPECT_EQ(status.trials_done, 3);
    last = status.final_done;
    left = status.seconds_left;
    if (best.empty() || best.back() != status.best) best.push_back(status.best);
  };
  search();
  EXPECT_TRUE(has_text(best.front(), "of the search ")) << best.front();
  EXPECT_TRUE(has_text(best.back(), "trial 2, 2")) << best.back();
  EXPECT_TRUE(has_text(best.back(), " % under trial 0 (95 % interval 2")) << best.back();
  EXPECT_EQ(last, 27);
  EXPECT_EQ(left, 0.0);
}

// Every trial of the search has a mood of its own, so a recommendation from the search alone claims gains
// that are the mood's. The final round finds what the configurations really differ by.
TEST_F(FinalRoundTest, MoodsOfTheMachineDoNotBecomeGains) {
  request.finalists = nullptr;
  search();
  const auto ratio_in_log = [&](std::size_t i) {
    const std::vector<Trial> trials = logged();
    return trials[i].metrics.at("tpot_ms").value / trials[0].metrics.at("tpot_ms").value;
  };
  const std::pair truth{ratio_in_log(1), ratio_in_log(2)};  // without moods, up to one per cent of noise

  runner.setup = {{"mood", 0.8}};
  request.timing_setup = {{"mood", 0.8}, {"timing_only", true}};
  request.finalists = [&](std::span<const Trial> trials) {
    return finalists(
        {trials, gate_named("none"), objectives, request.default_configuration, accuracy_parameters(), {}});
  };
  double worst_of_search = 0.0;
  for (request.seed = 1; request.seed <= 3; ++request.seed) {
    std::remove(log_file.c_str());
    search();
    const TrialLogContents log = read_trial_log(log_file);
    const Recommendation choice = choose({log.trials,
                                          gate_named("none"),
                                          objectives,
                                          request.default_configuration,
                                          accuracy_parameters(),
                                          {},
                                          log.measured_again});
    EXPECT_EQ(choice.verdict, Recommendation::Verdict::replaced);
    EXPECT_EQ(choice.trial, 2) << "top_k 6 really is the fastest";
    EXPECT_NEAR(choice.final_round->find(2)->ratio->value, truth.second, 0.015);
    EXPECT_NEAR(choice.final_round->find(1)->ratio->value, truth.first, 0.015);
    worst_of_search = std::max(worst_of_search, std::abs(ratio_in_log(2) - truth.second));
  }
  EXPECT_GT(worst_of_search, 0.1) << "the search alone was wrong by more, or this test shows nothing";
}

TEST_F(FinalRoundTest, ASlowDefaultInTheSearchInflatesNothing) {
  runner.setup = {{"search_factor", {{"when", {{"top_k", 8}}}, {"factor", 1.6}}}};
  request.timing_setup = {{"search_factor", {{"when", {{"top_k", 8}}}, {"factor", 1.6}}},
                          {"timing_only", true}};
  search();
  const TrialLogContents log = read_trial_log(log_file);
  const ChoiceInput search_alone{
      log.trials, gate_named("none"), objectives, request.default_configuration, accuracy_parameters(), {}};
  ChoiceInput all = search_alone;
  all.measured_again = log.measured_again;
  const double claimed =
      log.trials[2].metrics.at("tpot_ms").value / log.trials[0].metrics.at("tpot_ms").value;
  const Measurement ratio = *choose(all).final_round->find(2)->ratio;
  EXPECT_NEAR(ratio.value / claimed, 1.6, 0.03) << "the search saw the default 1.6 times slower than it is";
  EXPECT_FALSE(choose(search_alone).caution.empty());
  EXPECT_EQ(choose(all).caution, "");
}

TEST_F(TuneTest, AnotherSearchCannotGoOnWithTheLog) {
  ListSearcher first({with_top_k(3), with_top_k(7)});
  run(first);
  ListSearcher other({with_top_k(3), with_top_k(6)});
  EXPECT_TRUE(has_text(message_of<InputError>([&] { run(other); }),
                       "trials.jsonl:3: trial 2 is 'top_k=7', but the search asks for 'top_k=6'"));
  ListSearcher shorter({with_top_k(3)});
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { run(shorter); }), "holds 3 trials, but the search ends after 2"));
  request.default_configuration = with_top_k(7);
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { run(shorter); }), "trials.jsonl:1: trial 0 is 'top_k=8'"));
  request.default_configuration = with_top_k(8);
  request.seed = 6;
  ListSearcher same({with_top_k(3), with_top_k(7)});
  EXPECT_TRUE(has_text(message_of<InputError>([&] { run(same); }), "trials.jsonl:1: trial 0 has seed"));
  EXPECT_EQ(logged().size(), 3U) << "nothing was added";
}

TEST_F(TuneTest, ATornLineIsSaidAndMeasuredAgain) {
  ListSearcher first({with_top_k(3)});
  run(first);
  const std::vector<Trial> expected = logged();
  std::ofstream(log_file, std::ios::binary)
      << to_log_line(expected[0]) << to_log_line(expected[1]).substr(0, 50);
  ListSearcher second({with_top_k(3)});
  run(second);
  EXPECT_TRUE(has_text(messages, "trials.jsonl:2: the last line is torn"));
  EXPECT_TRUE(has_text(messages, "going on after 1 trials"));
  EXPECT_EQ(without_times(logged()), without_times(expected));
}

TEST_F(TuneTest, AnInterruptionLeavesTheLogWhole) {
  request.on_status = [&](const TuneStatus& status) {
    if (status.trial == 1 && status.doing == "synthetic: measuring") ::raise(SIGTERM);
  };
  runner.setup = {{"fail", {{{"when", {{"top_k", 3}}}, {"how", "hang"}}}}};
  ListSearcher searcher({with_top_k(3), with_top_k(7)});
  EXPECT_EQ(run(searcher).stop, Stop::interrupted);
  EXPECT_EQ(logged().size(), 1U);
  EXPECT_TRUE(children_of(::getpid()).empty());
}

TEST_F(TuneTest, ShowsTheBestAcceptableTrial) {
  std::vector<std::string> best;
  request.acceptable = [](const Trial& trial) { return trial.metrics.at("kl_mean").value < 0.05; };
  request.max_trials = 4;
  request.on_status = [&](const TuneStatus& status) {
    if (best.empty() || best.back() != status.best) best.push_back(status.best);
    EXPECT_TRUE(!status.seconds_left || *status.seconds_left >= 0.0);
    EXPECT_EQ(status.max_trials, 4);
  };
  ListSearcher searcher(
      {with_top_k(1), with_top_k(7), with_top_k(8)});  // top_k=1 is fastest and too inaccurate
  run(searcher);
  const std::vector<Trial> trials = logged();
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0], "");
  EXPECT_TRUE(has_text(best[1], " tpot_ms (trial 0)"));
  EXPECT_TRUE(has_text(best[2], " tpot_ms (trial 2)"));
}

TEST(TrialSeed, IsAFunctionOfStudyAndNumber) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t study = 0; study < 20; ++study)
    for (std::int64_t trial = 0; trial < 500; ++trial) seen.insert(trial_seed(study, trial));
  EXPECT_EQ(seen.size(), 10000U);
  EXPECT_LT(*seen.rbegin(), std::uint64_t{1} << 53);
  EXPECT_EQ(trial_seed(1, 0), trial_seed(1, 0));
}

}  // namespace
}  // namespace moetune
