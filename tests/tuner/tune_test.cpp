// The loop around searcher, runner and log, with real workers and searchers that a test can look into.
#include "tuner/tune.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/child_program.h"
#include "tests/support/message_of.h"
#include "tests/tuner/support/trials.h"
#include "tests/tuner/support/tune_fixture.h"
#include "tests/tuner/support/walking_searcher.h"

namespace moetune {
namespace {
using Stop = TuneResult::Stop;

class StubbornSearcher : public Searcher {
 public:
  std::optional<Configuration> ask() override { return with_top_k(8); }
  void tell(const Trial&) override {}
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
  EXPECT_TRUE(has_text(remarks, "going on after 1 trial\n"));
  EXPECT_FALSE(has_text(messages, "going on after"));
  EXPECT_EQ(without_times(logged()), without_times(expected));
}

TEST_F(TuneTest, AClockThatJumpsIsNamedAndLosesNothing) {
  using std::chrono::hours;
  auto calendar = std::make_shared<std::chrono::system_clock::time_point>(std::chrono::system_clock::now());
  runner.calendar = [calendar] { return *calendar += hours(1); };  // an hour between any two looks
  ListSearcher searcher({with_top_k(7), with_top_k(6)});
  EXPECT_EQ(run(searcher).stop, TuneResult::Stop::searcher_done);
  ASSERT_EQ(logged().size(), 3U);
  for (const Trial& trial : logged()) {
    EXPECT_EQ(trial.outcome, Outcome::ok);
    EXPECT_LT(trial.seconds, 600.0) << "by the other clock";
    EXPECT_NEAR(trial.clock_jump_seconds.value_or(0.0), 3600.0, 600.0) << "the log says so too";
    EXPECT_TRUE(
        has_text(messages, "trial " + std::to_string(trial.number) + ": the system clock jumped by +3"));
  }
  EXPECT_EQ(measurements(), 3U);
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
