// The final round of a run, with real workers: fresh processes, resume from every prefix, moods that do not
// become gains.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/tuner/support/trials.h"
#include "tests/tuner/support/tune_fixture.h"
#include "tuner/choose.h"
#include "tuner/standing.h"
#include "tuner/tune.h"

namespace moetune {
namespace {
using Stop = TuneResult::Stop;

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
  ASSERT_EQ(again.size(), 60U);
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
  EXPECT_EQ(measured_by.size(), 1U + 20U) << "one for the search, one for each pass";
}

TEST_F(FinalRoundTest, RecordsWhereTheTimeGoesInProcessesOfTheirOwn) {
  request.to_record = [](std::span<const Trial> trials, std::span<const Trial> again) {
    EXPECT_EQ(trials.size(), 3U);
    EXPECT_EQ(again.size(), 60U);
    return std::vector<std::int64_t>{2, 0};
  };
  request.recording_setup = {{"audit", folder / "audit"}, {"recording_only", true}};
  search();
  const auto recordings = [&] { return read_trial_log(log_file).recordings; };
  ASSERT_EQ(recordings().size(), 2U);
  EXPECT_EQ(recordings()[0].number, 2);
  EXPECT_EQ(recordings()[1].number, 0);
  for (const Trial& recording : recordings()) {
    EXPECT_TRUE(recording.metrics.contains("tax_token_ms"));
    EXPECT_FALSE(recording.metrics.contains("tpot_ms")) << "its times are not the configuration's";
    EXPECT_EQ(recording.configuration, logged()[static_cast<std::size_t>(recording.number)].configuration);
  }
  std::ifstream audit(folder / "audit");
  std::map<std::string, int> measured_by;  // process
  for (std::string configuration, process; audit >> configuration >> process;) ++measured_by[process];
  EXPECT_EQ(measured_by.size(), 1U + 20U + 2U);
  search();
  EXPECT_EQ(recordings().size(), 2U) << "who goes on records nothing twice";
}

TEST_F(FinalRoundTest, NothingIsRecordedWhereItCannotBe) {
  request.to_record = [](std::span<const Trial>, std::span<const Trial>) {
    return std::vector<std::int64_t>{2, 0};
  };
  request.recording_setup = {{"fail", {{{"when", nlohmann::json::object()}, {"how", "infeasible"}}}}};
  search();
  const std::vector<Trial> recordings = read_trial_log(log_file).recordings;
  ASSERT_EQ(recordings.size(), 1U) << "the second one would say the same";
  EXPECT_EQ(recordings[0].outcome, Outcome::infeasible);
  EXPECT_TRUE(has_text(messages, "where the time of trial 2 goes is not known: synthetic: cannot run here"));
}

TEST_F(FinalRoundTest, ResumingFromEveryPrefixGivesTheSameLog) {
  search();
  const TrialLogContents whole = read_trial_log(log_file);
  std::vector<std::string> lines;
  for (const Trial& trial : whole.trials) lines.push_back(to_log_line(trial));
  for (const Trial& trial : whole.measured_again) lines.push_back(to_log_line(trial));
  for (const std::size_t kept : {1U, 3U, 4U, 6U, 17U, 62U, 63U}) {
    std::ofstream stream(log_file, std::ios::binary);
    for (std::size_t i = 0; i < kept; ++i) stream << lines[i];
    stream.close();
    const std::size_t before = measurements();
    messages.clear();
    search();
    // A worker that the kernel kills for lack of memory is replaced, and says so: then more was measured.
    EXPECT_EQ(messages, "") << kept;
    EXPECT_EQ(measurements() - before, lines.size() - kept) << "nothing is measured twice" << kept;
    EXPECT_EQ(without_times(logged()), without_times(whole.trials)) << kept;
    EXPECT_EQ(without_times(turns()), without_times(whole.measured_again)) << kept;
  }
}

TEST_F(FinalRoundTest, ALongerSearchHasItsOwnRoundAndTheSameTrials) {
  request.max_trials = 2;
  search();
  EXPECT_EQ(turns().size(), 40U);
  request.max_trials = 3;
  search();
  EXPECT_EQ(turns().size(), 40U + 60U);
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
  EXPECT_EQ(turns().size(), 20U) << "one alone is measured again as well: later nights are compared with it";
}

TEST_F(FinalRoundTest, WhatElseIsMeasuredInTurnsHasTheMachineForItself) {
  request.final_limits = FinalLimits{.passes = 4};
  std::vector<std::uint64_t> seeds;
  request.beside_pass = [&](std::int64_t pass, std::uint64_t seed) {
    EXPECT_EQ(pass, std::ssize(seeds));
    EXPECT_TRUE(children_of(::getpid()).empty());
    EXPECT_EQ(std::ssize(turns()), 3 * (pass + pass % 2)) << "before the one, after the other";
    seeds.push_back(seed);
    return true;
  };
  search();
  ASSERT_EQ(turns().size(), 4U * 3U);
  ASSERT_EQ(seeds.size(), 4U);
  for (const Trial& turn : turns()) EXPECT_EQ(turn.seed, seeds[static_cast<std::size_t>(turn.turn->pass)]);
}

TEST_F(FinalRoundTest, AnInterruptionBeforeAPassIsOneOfTheRun) {
  request.beside_pass = [](std::int64_t pass, std::uint64_t) { return pass < 2; };
  EXPECT_EQ(search().stop, Stop::interrupted);
  EXPECT_EQ(turns().size(), 2U * 3U);
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

TEST(Standing, WhatTheOthersAreMeasuredAgainstIsTheBestWhereNothingBeatsIt) {
  const std::vector<Objective> objectives = objectives_named("tpot_ms");
  TuneRequest request;
  request.objectives = objectives;
  std::string best;
  request.on_status = [&](const TuneStatus& status) { best = status.best; };
  Standing standing(request);
  FinalRound round;
  round.finalists.resize(2);
  round.finalists[0].trial = 0;
  round.finalists[1].trial = 1;
  round.finalists[1].ratio.emplace().value = 1.6;
  standing.improve_best(round);
  standing.doing("");
  EXPECT_EQ(best, "trial 0 (the nearest: trial 1, 60 % over trial 0)");
  round.finalists[1].ratio->value = 0.8;
  standing.improve_best(round);
  standing.doing("");
  EXPECT_EQ(best, "trial 1, 20 % under trial 0");
}

// Twenty passes of turns that take 3 s do not fit into a limit of 5 s: no more than that is left of it, and
// what the fewest passes still take.
TEST(Standing, NoMoreTimeIsLeftThanTheLimitOfTheFinalRoundLeaves) {
  const std::vector<Objective> objectives = objectives_named("tpot_ms");
  TuneRequest request;
  request.objectives = objectives;
  request.budget_seconds = 20.0;
  std::optional<double> left;
  request.on_status = [&](const TuneStatus& status) { left = status.seconds_left; };
  Standing standing(request);
  standing.begin_final_round(2, {.passes = 20, .fewest = 2, .seconds = 5.0});
  standing.show();
  EXPECT_EQ(left, 5.0);
  Trial turn;
  turn.seconds = 1.0;
  standing.add_turn(turn, true);
  standing.show();
  EXPECT_EQ(left, 4.0);
  turn.seconds = 5.0;
  standing.add_turn(turn, true);
  standing.show();
  EXPECT_EQ(left, 6.0) << "two more turns of 3 s are owed";
}

TEST(Standing, TheSmallerOfLimitAndConfigurationsIsCountedTo) {
  TuneRequest request;
  request.different_configurations = 24;
  std::optional<std::int64_t> most;
  request.on_status = [&](const TuneStatus& status) { most = status.max_trials; };
  Standing(request).show();
  EXPECT_EQ(most, 24);
  request.max_trials = 30;
  Standing(request).show();
  EXPECT_EQ(most, 24);
  request.max_trials = 3;
  Standing(request).show();
  EXPECT_EQ(most, 3);
}

TEST_F(FinalRoundTest, SaysHowFarItIs) {
  std::int64_t last = -1;
  std::optional<double> left;
  std::vector<std::string> best;
  request.on_status = [&](const TuneStatus& status) {
    if (status.final_most == 0) return;
    EXPECT_EQ(status.final_most, 60);
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
  EXPECT_EQ(last, 60);
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
    return finalists({.trials = trials,
                      .gate = gate_named("none"),
                      .objectives = objectives,
                      .default_configuration = request.default_configuration,
                      .accuracy_parameters = accuracy_parameters(),
                      .slo = {}});
  };
  double worst_of_search = 0.0;
  for (request.seed = 1; request.seed <= 3; ++request.seed) {
    std::remove(log_file.c_str());
    search();
    const TrialLogContents log = read_trial_log(log_file);
    const Recommendation choice = choose({.trials = log.trials,
                                          .gate = gate_named("none"),
                                          .objectives = objectives,
                                          .default_configuration = request.default_configuration,
                                          .accuracy_parameters = accuracy_parameters(),
                                          .slo = {},
                                          .measured_again = log.measured_again});
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

}  // namespace
}  // namespace moetune
