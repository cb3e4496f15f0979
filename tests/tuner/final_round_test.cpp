// The final round as a function of the log: whose turn is next, when it is over, what it comes to.
#include "tuner/final_round.h"

#include <map>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/counter_rng.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

const std::vector<std::int64_t> finalists{0, 7, 3};
constexpr std::int64_t after = 9;

Trial turn(const NextTurn& next, double tpot_ms, double seconds = 1.0) {
  Trial trial;
  trial.number = next.trial;
  trial.turn = next.turn;
  trial.seconds = seconds;
  trial.metrics["tpot_ms"] = {.value = tpot_ms,
                              .low = tpot_ms * 0.99,
                              .high = tpot_ms * 1.01,
                              .p99 = {},
                              .n = 20,
                              .origin = Origin::measured,
                              .stopped = ""};
  return trial;
}

// Plays the whole round; true times by trial, a mood for every pass.
std::vector<Trial> played(const std::map<std::int64_t, double>& times, const std::vector<double>& moods,
                          FinalLimits limits) {
  std::vector<Trial> log;
  while (const auto next = next_turn(finalists, after, log, limits))
    log.push_back(
        turn(*next, times.at(next->trial) * moods[static_cast<std::size_t>(next->turn.pass) % moods.size()]));
  return log;
}

const std::map<std::int64_t, double> true_times{{0, 1.0}, {7, 0.85}, {3, 0.99}};
const Objective tpot = objectives_named("tpot_ms").front();

TEST(NextTurn, EveryPassHasEveryFinalistOnce) {
  const std::vector<Trial> log = played(true_times, std::vector<double>(9, 1.0), {});
  ASSERT_EQ(log.size(), 60U);
  std::map<std::int64_t, int> first;
  for (std::size_t i = 0; i < log.size(); i += 3) {
    EXPECT_EQ(log[i].turn->pass, static_cast<std::int64_t>(i / 3));
    EXPECT_EQ(log[i].number + log[i + 1].number + log[i + 2].number, 10) << "each once";
    EXPECT_NE(log[i].number, log[i + 1].number);
    ++first[log[i].number];
  }
  for (const std::int64_t number : finalists)
    EXPECT_NEAR(first[number], 20 / 3.0, 1.0) << "each begins about as often as the others";
  for (std::size_t pass = 0; pass < 20; pass += 2)
    for (std::size_t place = 0; place < 3; ++place)
      EXPECT_EQ(log[3 * pass + place].number, log[3 * pass + 5 - place].number)
          << "every second pass goes back the same way";
}

TEST(NextTurn, LoadingMayTakeNoMoreThanItsShare) {
  const auto passes_within = [](double load_seconds) {
    std::vector<Trial> log;
    const FinalLimits limits{.load_seconds = load_seconds};
    while (const auto next = next_turn(finalists, after, log, limits)) {
      log.push_back(turn(*next, 1.0));
      log.back().metrics["load_seconds"].value = 2.0;  // 6 s a pass
    }
    return log.back().turn->pass + 1;
  };
  EXPECT_EQ(passes_within(1000.0), usual_passes);
  EXPECT_EQ(passes_within(31.0), 5);
  EXPECT_EQ(passes_within(1.0), fewest_passes) << "fewer compare nothing";
}

TEST(FinalRound, TheDefaultAgainstItselfIsTheControl) {
  const auto control = [](const std::vector<double>& moods) {
    const std::vector<Trial> log = played(true_times, moods, {});
    return against_itself(final_round(finalists, after, log, tpot).value());
  };
  const auto same = control({1.0, 1.01, 1.02, 1.0});  // ratios 1.01 and 0.98
  ASSERT_TRUE(same.has_value());
  EXPECT_LT(*same->low, 1.0);
  EXPECT_GT(*same->high, 1.0);
  const auto drifting = control({1.0, 1.1});
  EXPECT_GT(*drifting->low, 1.05) << "no difference, and yet one in every block";
  FinalRound few;
  few.reference_by_pass.assign(11, 1.0);
  EXPECT_FALSE(against_itself(few).has_value());
}

TEST(NextTurn, GoesOnFromEveryPrefix) {
  const std::vector<Trial> whole = played(true_times, std::vector<double>(9, 1.0), {});
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    const auto next = next_turn(finalists, after, std::span(whole).first(kept), {});
    ASSERT_TRUE(next.has_value()) << kept;
    EXPECT_EQ(next->trial, whole[kept].number) << kept;
    EXPECT_EQ(next->turn, *whole[kept].turn) << kept;
  }
  EXPECT_FALSE(next_turn(finalists, after, whole, {}).has_value());
}

TEST(NextTurn, AnotherSearchOrOtherFinalistsBeginAnew) {
  const std::vector<Trial> whole = played(true_times, std::vector<double>(9, 1.0), {});
  EXPECT_EQ(next_turn(finalists, after + 1, whole, {})->turn.pass, 0);
  EXPECT_EQ(next_turn(std::vector<std::int64_t>{0, 7}, after, whole, {})->turn.pass, 0);
}

TEST(NextTurn, NoPassBeginsThatWouldEndTooLate) {
  // Three seconds a pass.
  EXPECT_EQ(played(true_times, std::vector<double>(9, 1.0), {.seconds = 15.5}).size(), 15U);
  EXPECT_EQ(played(true_times, std::vector<double>(9, 1.0), {.seconds = 0.0}).size(), 6U)
      << "two passes in any case";
  EXPECT_EQ(
      played(true_times, std::vector<double>(9, 1.0), {.passes = 60, .fewest = 20, .seconds = 75.5}).size(),
      75U)
      << "25 of them in that time";
  EXPECT_EQ(
      played(true_times, std::vector<double>(9, 1.0), {.passes = 60, .fewest = 20, .seconds = 0.0}).size(),
      60U)
      << "as few as were asked for";
}

TEST(NextTurn, WhoFailedIsLeftOutAndWhoIsLeftGoesOnAlone) {
  std::vector<Trial> log;
  while (const auto next = next_turn(finalists, after, log, {})) {
    log.push_back(turn(*next, 1.0));
    if (next->trial == 7 && next->turn.pass == 1) log.back().outcome = Outcome::crashed;
  }
  EXPECT_EQ(log.size(), 6U + 18U * 2U);
  log.clear();
  while (const auto next = next_turn(finalists, after, log, {})) {
    log.push_back(turn(*next, 1.0));
    if (next->trial != 0) log.back().outcome = Outcome::crashed;
  }
  EXPECT_EQ(log.size(), 3U + 19U) << "what a later night is compared with";
  log.clear();
  while (const auto next = next_turn(finalists, after, log, {})) {
    log.push_back(turn(*next, 1.0));
    log.back().outcome = Outcome::crashed;
  }
  EXPECT_EQ(log.size(), 3U) << "nobody is left";
}

TEST(FinalRound, OneAloneHasItsRounds) {
  const std::vector<std::int64_t> alone{0};
  std::vector<Trial> log;
  while (const auto next = next_turn(alone, after, log, {}))
    log.push_back(turn(*next, 1.0 + 0.01 * static_cast<double>(next->turn.pass)));
  ASSERT_EQ(log.size(), 20U);
  const auto round = final_round(alone, after, log, tpot);
  ASSERT_TRUE(round.has_value());
  EXPECT_EQ(round->passes, 20);
  EXPECT_FALSE(round->finalists.front().ratio.has_value());
  EXPECT_NEAR(round->finalists.front().metrics.at("tpot_ms").value, 1.095, 1e-12);
  EXPECT_EQ(round->reference_by_pass.size(), 20U);
  log.back().outcome = Outcome::crashed;
  EXPECT_FALSE(final_round(alone, after, log, tpot)->finalists.front().failure.empty());
}

TEST(NextTurn, AnotherOrderIsNamed) {
  std::vector<Trial> log = played(true_times, std::vector<double>(9, 1.0), {});
  std::swap(log[3], log[4]);
  EXPECT_TRUE(has_text(message_of<InputError>([&] { next_turn(finalists, after, log, {}); }),
                       "final round after 9 trials"));
}

TEST(FinalRound, MoodsBetweenPassesCancel) {
  // The machine is up to twice as slow in some passes: medians of single configurations say little, ratios
  // all.
  const std::vector<double> moods{1.0, 2.0, 1.1, 1.7, 1.0, 1.9, 1.3, 1.5, 1.2};
  const auto round = final_round(finalists, after, played(true_times, moods, {.passes = 9}), tpot);
  ASSERT_TRUE(round.has_value());
  EXPECT_EQ(round->passes, 9);
  ASSERT_EQ(round->finalists.size(), 3U);
  EXPECT_FALSE(round->finalists[0].ratio.has_value()) << "the first is what the others are compared with";
  const Measurement& ratio = *round->find(7)->ratio;
  EXPECT_NEAR(ratio.value, 0.85, 1e-12);
  EXPECT_NEAR(*ratio.low, 0.85, 1e-12);
  EXPECT_NEAR(*ratio.high, 0.85, 1e-12);
  EXPECT_EQ(ratio.processes, 9);
  const Measurement& time = round->find(7)->metrics.at("tpot_ms");
  EXPECT_NEAR(time.value, 0.85 * 1.3, 1e-12);
  EXPECT_NEAR(*time.low, 0.85 * 1.0, 1e-12) << "the time's own interval holds the moods";
  EXPECT_NEAR(*time.high, 0.85 * 1.9, 1e-12);
}

TEST(FinalRound, ShowsHowTheMachineChangedMeanwhile) {
  std::vector<double> moods;
  for (int pass = 0; pass < 20; ++pass) moods.push_back(1.0 + 0.01 * pass);
  const auto round = final_round(finalists, after, played(true_times, moods, {}), tpot);
  ASSERT_TRUE(round.has_value());
  ASSERT_EQ(round->reference_by_pass.size(), 20U);
  EXPECT_DOUBLE_EQ(round->reference_by_pass[3], 1.03);
  EXPECT_NEAR(drift_of(*round).value(), 1.165 / 1.025 - 1.0, 1e-12);
  EXPECT_FALSE(drift_of({.finalists = {}, .passes = 2, .reference_by_pass = {1.0, 2.0}}).has_value());
}

TEST(FinalRound, IntervalsHoldForAllChallengersAtOnce) {
  const auto with = [](const std::vector<std::int64_t>& who) {
    std::vector<Trial> log;
    RngSequence random(CounterRng(12, RngStage::bootstrap));
    while (const auto next = next_turn(who, after, log, {}))
      log.push_back(turn(*next, 1.0 + random.uniform()));
    return final_round(who, after, log, tpot)->find(7)->ratio.value();
  };
  const Measurement alone = with({0, 7});
  const Measurement among_three = with({0, 7, 3, 5});
  EXPECT_EQ(alone.processes, 20);
  EXPECT_TRUE(has_known_confidence(among_three));
  EXPECT_EQ(quantile_ranks(20, 0.5)->low, 5U) << "for one alone";
  EXPECT_EQ(quantile_ranks(20, 0.5, 1.0 - 0.05 / 3.0)->low, 4U) << "for three at once";
}

TEST(FinalRound, OneDisturbedTurnDoesNoHarm) {
  std::vector<Trial> log = played(true_times, std::vector<double>(9, 1.0), {});
  for (Trial& trial : log)
    if (trial.number == 7 && trial.turn->pass == 4) trial.metrics["tpot_ms"].value = 5.0;
  EXPECT_NEAR(*final_round(finalists, after, log, tpot)->find(7)->ratio->high, 0.85, 1e-12);
}

TEST(FinalRound, FewPassesHaveTheRangeOfAllTheirNoise) {
  const std::vector<double> moods{1.0, 1.5, 1.0};
  const auto round = final_round(finalists, after, played(true_times, moods, {.passes = 3}), tpot);
  ASSERT_TRUE(round.has_value());
  EXPECT_NEAR(round->find(7)->ratio->value, 0.85, 1e-12);
  EXPECT_NEAR(*round->find(7)->ratio->low, 0.85 * 0.99 / 1.01, 1e-12);
  EXPECT_NEAR(*round->find(7)->ratio->high, 0.85 * 1.01 / 0.99, 1e-12);
}

TEST(FinalRound, OnlyCompletePassesCount) {
  const std::vector<Trial> whole = played(true_times, std::vector<double>(9, 1.0), {});
  EXPECT_FALSE(final_round(finalists, after, std::span(whole).first(5), tpot).has_value());
  EXPECT_EQ(final_round(finalists, after, std::span(whole).first(6), tpot)->passes, 2);
  EXPECT_EQ(final_round(finalists, after, std::span(whole).first(26), tpot)->passes, 8);
  EXPECT_FALSE(final_round(finalists, after + 1, whole, tpot).has_value()) << "the search went on";
  EXPECT_TRUE(final_round(std::vector<std::int64_t>{0, 3}, after, whole, tpot).has_value())
      << "two of the three";
  EXPECT_FALSE(final_round(std::vector<std::int64_t>{0, 4}, after, whole, tpot).has_value());
  EXPECT_FALSE(final_round({}, after, whole, tpot).has_value());
}

TEST(FinalRound, AFailureIsSaid) {
  std::vector<Trial> log;
  while (const auto next = next_turn(finalists, after, log, {})) {
    log.push_back(turn(*next, 1.0));
    if (next->trial != 7 || next->turn.pass < 3) continue;
    log.back().outcome = Outcome::timed_out;
    log.back().reason = "no result within 3 s";
  }
  const auto round = final_round(finalists, after, log, tpot);
  ASSERT_TRUE(round.has_value());
  EXPECT_EQ(round->passes, 20);
  EXPECT_EQ(round->find(7)->failure, "timed_out: no result within 3 s");
  EXPECT_FALSE(round->find(7)->ratio.has_value());
  EXPECT_EQ(round->find(3)->ratio->value, 1.0);
}

TEST(FinalRound, ReplacesTimesAndNothingElse) {
  Finalist finalist;
  finalist.metrics["tpot_ms"].value = 2.0;
  Metrics searched;
  searched["tpot_ms"].value = 1.0;
  searched["tpot_ms"].p99 = 3.0;
  searched["kl_mean"].value = 0.5;
  const Metrics both = with_final_times(searched, finalist);
  EXPECT_EQ(both.at("tpot_ms").value, 2.0);
  EXPECT_EQ(both.at("tpot_ms").p99, 3.0) << "turns are too short for one of their own";
  EXPECT_EQ(both.at("kl_mean").value, 0.5);
}

// Of rounds without any difference between the finalists, how many would say that one is better?
TEST(FinalRound, ClaimsNothingWhereThereIsNothing) {
  int claims = 0;
  constexpr int rounds = 1000;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    RngSequence random(CounterRng(11, RngStage::bootstrap, i));
    std::vector<Trial> log;
    double mood = 1.0;
    std::int64_t pass = -1;
    while (const auto next = next_turn(finalists, after, log, {})) {
      if (next->turn.pass != pass) mood = 1.0 + random.uniform();
      pass = next->turn.pass;
      log.push_back(turn(*next, mood * (1.0 + 0.05 * random.uniform())));
    }
    claims += *final_round(finalists, after, log, tpot)->find(7)->ratio->high < 1.0 ? 1 : 0;
  }
  EXPECT_LE(claims, 0.025 * rounds);
}

}  // namespace
}  // namespace moetune
