// What is recommended when the finalists were measured again in turns: invented searches and rounds.
#include "tuner/choose.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {
using Verdict = Recommendation::Verdict;

// top_k 8 is the default. A search by invented times, a final round by others.
struct InventedFinal {
  std::vector<Trial> trials;
  std::vector<Trial> measured_again;
  Configuration default_configuration{{{"top_k", "8"}}};
  std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean");
  std::string gate = "int8";
  std::optional<Slo> slo;

  void add(int top_k, double tpot_ms, double kl = 0.001) {
    Trial trial;
    trial.number = std::ssize(trials);
    trial.configuration.values["top_k"] = std::to_string(top_k);
    trial.metrics["tpot_ms"] = time(tpot_ms);
    trial.metrics["kl_mean"].value = kl;
    trial.metrics["top1_agreement"].value = 0.97;
    trials.push_back(trial);
  }
  static Measurement time(double value) {
    Measurement measured;
    measured.value = value;
    measured.low = value * 0.995;
    measured.high = value * 1.005;
    measured.p99 = value * 1.5;
    return measured;
  }
  ChoiceInput input() const {
    return {trials, gate_named(gate), objectives, default_configuration, accuracy_parameters(), slo,
            false,  measured_again};
  }
  std::vector<std::int64_t> who() const { return finalists(input()); }
  Recommendation choice() const { return choose(input()); }

  // times: by trial, and by pass. Returns a pass more where a turn is missing.
  void play(const std::map<std::int64_t, std::vector<double>>& times, FinalLimits limits = {}) {
    const std::vector<std::int64_t> numbers = who();
    while (const auto next = next_turn(numbers, std::ssize(trials), measured_again, limits)) {
      Trial trial;
      trial.number = next->trial;
      trial.configuration = trials.at(static_cast<std::size_t>(next->trial)).configuration;
      trial.turn = next->turn;
      const std::vector<double>& own = times.at(next->trial);
      trial.metrics["tpot_ms"] = time(own[static_cast<std::size_t>(next->turn.pass) % own.size()]);
      measured_again.push_back(trial);
    }
  }
};

TEST(Finalists, AreTheDefaultTheWouldBeAndTheNextBest) {
  InventedFinal run;
  run.add(8, 1.0);
  run.add(1, 0.2, 2.0);  // misses the gate
  for (int top_k = 3; top_k <= 7; ++top_k) run.add(top_k, 0.8 + 0.02 * top_k);
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0, 2, 3, 4}));
  run.gate = "none";
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0, 1})) << "what takes four times as long has no chance";
}

TEST(Finalists, IncludeTheSimplerOneThatWouldBeRecommended) {
  InventedFinal run;
  run.default_configuration.values["router"] = "cpu";
  run.add(8, 1.0);
  for (int i = 0; i < 4; ++i) run.add(7 - i, 0.800 + 0.001 * i);
  for (Trial& trial : run.trials)
    trial.configuration.values["router"] = trial.number == 0 || trial.number == 4 ? "cpu" : "gpu";
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0, 4, 1, 2}));
}

TEST(Finalists, AreTheDefaultAloneWhereNothingElseHasAChance) {
  InventedFinal run;
  EXPECT_TRUE(run.who().empty());
  run.add(8, 1.0);
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0})) << "a profile needs rounds to be checked by";
  run.add(7, 0.8, 3.0);
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0})) << "the other one misses the gate";
  EXPECT_EQ(run.choice().caution, "") << "no gain is claimed";
  run.gate = "none";
  EXPECT_EQ(run.who().size(), 2U);
  run.objectives = objectives_named("kl_mean,tpot_ms");
  EXPECT_TRUE(run.who().empty()) << "accuracy does not depend on when it is measured";
}

TEST(ChooseFinal, ASlowDefaultInTheSearchInflatesNoGain) {
  InventedFinal run;
  run.add(8, 0.437);  // measured first, under a slow mood
  run.add(7, 0.254);
  EXPECT_EQ(run.choice().verdict, Verdict::replaced);
  EXPECT_TRUE(has_text(run.choice().reason, "42 % under"));
  EXPECT_TRUE(run.choice().caution.starts_with("NOT MEASURED AGAIN: ")) << "and that is no figure to rely on";

  run.play({{0, {0.300, 0.306, 0.294}}, {1, {0.255, 0.258, 0.252}}});
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.caution, "");
  EXPECT_EQ(choice.verdict, Verdict::replaced);
  EXPECT_TRUE(
      has_text(choice.reason,
               "top_k 7: 0.255 ms per token (0.252-0.258), 15 % under (95 % interval 14 % to 16 %) the "
               "default's 0.300 ms per token (0.294-0.306), measured in turns 20 times in fresh processes"))
      << choice.reason;
  ASSERT_TRUE(choice.final_round.has_value());
  EXPECT_NEAR(choice.final_round->find(1)->ratio->value, 0.85, 0.01);
}

TEST(ChooseFinal, AGainOfTheMoodAloneIsNone) {
  InventedFinal run;
  run.add(8, 0.4);
  run.add(7, 0.3);
  run.play({{0, {0.30, 0.31, 0.29}}, {1, {0.30, 0.305, 0.295}}});
  EXPECT_EQ(run.choice().trial, 0);
  EXPECT_NE(run.choice().verdict, Verdict::replaced);
}

TEST(ChooseFinal, AFastMoodOfTheDefaultHidesNothing) {
  InventedFinal run;
  run.add(8, 0.25);  // the search would keep it
  run.add(7, 0.30);
  EXPECT_EQ(run.choice().verdict, Verdict::default_stays);
  run.play({{0, {0.30}}, {1, {0.27}}});
  EXPECT_EQ(run.choice().verdict, Verdict::replaced);
  EXPECT_EQ(run.choice().trial, 1);
}

TEST(ChooseFinal, MoodsBetweenPassesAreNoDoubt) {
  InventedFinal run;
  run.add(8, 0.30);
  run.add(7, 0.28);
  run.play({{0, {0.30, 0.50, 0.40}}, {1, {0.27, 0.45, 0.36}}});
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::replaced)
      << "the intervals of the times overlap, the ratios do not reach 1";
  EXPECT_TRUE(has_text(choice.reason, "10 % under (95 % interval 10 % to 10 %)"));
}

TEST(ChooseFinal, WhatMayBeNoDifferenceStaysOpen) {
  InventedFinal run;
  run.add(8, 0.30);
  run.add(7, 0.25);
  run.play({{0, {0.30}}, {1, {0.29, 0.31, 0.295}}});
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::indeterminate);
  EXPECT_EQ(choice.trial, 0);
  EXPECT_TRUE(has_text(
      choice.reason,
      "(95 % interval 3.3 % under to 3.3 % over) the default's, which may be no difference at all; about "))
      << choice.reason;
}

TEST(ChooseFinal, SaysHowManyPassesWouldTell) {
  InventedFinal run;
  run.add(8, 0.30);
  run.add(7, 0.25);
  // 2 % under, the interval reaches 3.2 % further up: 20 x (3.2 / 2)^2.
  run.play({{0, {1.0}}, {1, {0.98, 1.012, 0.98,  1.012, 0.95,  0.98, 1.012, 0.98, 0.98, 1.012,
                             0.98, 0.98,  1.012, 0.98,  1.012, 0.95, 0.98,  0.98, 0.95, 0.98}}});
  EXPECT_EQ(run.choice().verdict, Verdict::indeterminate);
  EXPECT_TRUE(
      has_text(run.choice().reason, "no difference at all; about 52 passes instead of 20 would tell."))
      << run.choice().reason;
}

TEST(ChooseFinal, LessThanOnePercentDoesNotReplaceTheDefault) {
  InventedFinal run;
  run.add(8, 0.30);
  run.add(7, 0.25);
  run.play({{0, {1.0}}, {1, {0.995}}});
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::default_stays);
  EXPECT_EQ(choice.trial, 0);
  EXPECT_TRUE(has_text(choice.reason, "0.5 % better, which is within 1 %, and the default needs no change."))
      << choice.reason;
  EXPECT_EQ(choice.runner_up, 1);
}

TEST(ChooseFinal, StatesItsTolerance) {
  InventedFinal run;
  run.add(8, 0.30);
  run.add(7, 0.25);
  EXPECT_FALSE(run.choice().tolerance.has_value()) << "the search alone states none";
  run.play({{0, {1.0}}, {1, {0.90, 0.88, 0.92}}});
  const double still_found = 0.05 / 0.30;  // by the second half of the search
  EXPECT_NEAR(run.choice().tolerance.value(), 0.01 + 0.04 / 0.90 + still_found, 1e-9);
  run.measured_again.clear();
  run.play({{0, {1.0}}, {1, {1.00, 0.97, 1.03}}});
  EXPECT_EQ(run.choice().trial, 0);
  EXPECT_NEAR(run.choice().tolerance.value(), 0.01 + 0.03 + still_found, 1e-9)
      << "so much better may the other one be";
  run.measured_again.clear();
  for (int top_k = 6; top_k >= 1; --top_k) run.add(top_k, 0.26, top_k == 1 ? 3.0 : 0.001);
  run.trials.back().metrics["tpot_ms"].value = 0.1;
  run.play({{0, {1.0}}, {1, {0.90, 0.88, 0.92}}, {2, {1.0}}, {3, {1.0}}});
  EXPECT_NEAR(run.choice().tolerance.value(), 0.01 + 0.04 / 0.90, 0.02)
      << "its second half found nothing better that meets the gate";
}

TEST(Finalists, OfTheSameWeightsStandTogether) {
  InventedFinal run;
  run.default_configuration.values["expert_quant"] = "checkpoint";
  run.add(8, 1.0);
  for (int i = 0; i < 3; ++i) run.add(7 - i, 0.80 + 0.01 * i);
  for (Trial& trial : run.trials)
    trial.configuration.values["expert_quant"] = trial.number % 2 == 0 ? "checkpoint" : "int8";
  EXPECT_EQ(run.who(), (std::vector<std::int64_t>{0, 2, 1, 3}));
}

TEST(ChooseFinal, TheLuckiestOfTheSearchMayLoseToTheNext) {
  InventedFinal run;
  run.add(8, 1.0);
  run.add(7, 0.70);
  run.add(6, 0.75);
  run.play({{0, {1.0}}, {1, {0.9}}, {2, {0.8}}});
  EXPECT_EQ(run.choice().trial, 2);
  EXPECT_EQ(run.choice().runner_up, 1);
  EXPECT_TRUE(has_text(run.choice().why_not_runner_up, "top_k 7: 0.900 ms per token"));
}

TEST(ChooseFinal, OnlyFinalistsCompete) {
  InventedFinal run;
  run.add(8, 1.0);
  for (int top_k = 3; top_k <= 7; ++top_k) run.add(top_k, 0.80 + 0.02 * top_k);
  // All finalists were lucky in the search; the one below them, never measured again, must not win by its
  // search value.
  run.play({{0, {1.2}}, {1, {1.1}}, {2, {1.1}}, {3, {1.15}}});
  EXPECT_EQ(run.choice().trial, 1);
}

TEST(ChooseFinal, AFinalistThatFailsIsOut) {
  InventedFinal run;
  run.add(8, 1.0);
  run.add(7, 0.7);
  run.add(6, 0.8);
  run.play({{0, {1.0}}, {1, {0.7}}, {2, {0.8}}});
  for (Trial& trial : run.measured_again)
    if (trial.number == 1 && trial.turn->pass == 8) trial.outcome = Outcome::crashed;
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.trial, 2);
  EXPECT_TRUE(has_text(
      choice.reason, "top_k 7: 0.700 ms per token (0.697-0.703); failed when it was measured again: crashed"))
      << choice.reason;
}

TEST(ChooseFinal, TheDefaultAloneStaysWithTheTimesOfItsRound) {
  InventedFinal run;
  run.add(8, 1.0);
  run.add(7, 2.5);  // acceptable, and too slow to be a finalist
  run.add(6, 0.5, 3.0);
  run.play({{0, {1.2, 1.1, 1.3}}});
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::default_stays);
  EXPECT_EQ(choice.trial, 0);
  EXPECT_EQ(choice.caution, "");
  EXPECT_TRUE(
      has_text(choice.reason, "1.20 ms per token (1.10-1.30), measured again 20 times in fresh processes"))
      << choice.reason;
  EXPECT_EQ(choice.final_round->passes, 20);
  EXPECT_EQ(choice.runner_up, 1) << "a canary of later nights";
  EXPECT_TRUE(has_text(choice.why_not_runner_up, "worse")) << choice.why_not_runner_up;
  EXPECT_NEAR(choice.tolerance.value(), 0.01, 1e-12);
}

TEST(ChooseFinal, TheDefaultAloneMayFail) {
  InventedFinal run;
  run.add(8, 1.0);
  run.play({{0, {1.0}}});
  run.measured_again.back().outcome = Outcome::crashed;
  run.measured_again.back().reason = "killed by signal 11";
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_measured);
  EXPECT_FALSE(choice.trial.has_value());
  EXPECT_TRUE(
      has_text(choice.reason,
               "of what meets the int8 gate nothing could be measured again; the default configuration "
               "failed when it was measured again: crashed: killed by signal 11"))
      << choice.reason;
}

TEST(ChooseFinal, AnotherGateMayNeedAnotherRound) {
  InventedFinal run;
  run.add(8, 1.0, 0.0);
  run.add(7, 0.9, 0.0005);
  for (int top_k = 3; top_k <= 6; ++top_k) run.add(top_k, 0.5 + 0.02 * top_k, 0.01);
  run.trials[1].metrics["top1_agreement"].value = 0.99;
  run.trials[0].metrics["top1_agreement"].value = 1.0;
  run.play({{0, {1.0}}, {2, {0.6}}, {3, {0.6}}, {4, {0.6}}});
  EXPECT_EQ(run.choice().caution, "");
  run.gate = "lossless";
  EXPECT_FALSE(run.choice().caution.empty()) << "trial 1 was no finalist";
  EXPECT_EQ(run.choice().trial, 1);
  run.play({{0, {1.0}}, {1, {0.95}}});
  EXPECT_EQ(run.choice().caution, "");
  run.gate = "int8";
  EXPECT_EQ(run.choice().caution, "") << "the older round is still there";
}

TEST(ChooseFinal, TheServiceLevelIsJudgedByTheFinalRound) {
  InventedFinal run;
  run.slo = Slo{"tpot", 1.0};
  run.add(8, 0.9);
  run.add(7, 0.7);
  run.play({{0, {0.9}}, {1, {0.85}}});
  EXPECT_TRUE(has_text(run.choice().reason, "Meets the service level tpot <= 1 ms: 0.850 ms."));
}

TEST(ChooseFinal, LargerMayBeBetter) {
  InventedFinal run;
  run.objectives = objectives_named("tokens_per_s,kl_mean");
  const auto with_rates = [](std::vector<Trial>& trials) {
    for (Trial& trial : trials)
      trial.metrics["tokens_per_s"] = InventedFinal::time(100.0 / trial.metrics["tpot_ms"].value);
  };
  run.add(8, 1.0);
  run.add(7, 0.9);
  with_rates(run.trials);
  run.play({{0, {1.0, 1.5}}, {1, {0.8, 1.2}}});
  with_rates(run.measured_again);
  EXPECT_EQ(run.choice().verdict, Verdict::replaced);
  EXPECT_TRUE(has_text(run.choice().reason, "25 % over (95 % interval 25 % to 25 %)")) << run.choice().reason;
}

}  // namespace
}  // namespace moetune
