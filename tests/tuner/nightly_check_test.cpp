// Verdicts by the interval of the slowdown, one test for each rule of judge_nightly().
#include "tuner/nightly_check.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tuner/moved_knobs.h"

namespace moetune {
namespace {

Measurement time_of(double value, double half_width) {
  Measurement time;
  time.value = value;
  time.low = value - half_width;
  time.high = value + half_width;
  time.n = 40;
  time.processes = 9;
  return time;
}

Objective tpot() {
  Objective objective;
  objective.metric = "tpot_ms";
  return objective;
}

Metrics metrics(double tpot_ms, double half_width, double kl = 0.001) {
  Metrics all;
  all["tpot_ms"] = time_of(tpot_ms, half_width);
  all["kl_mean"] = time_of(kl, kl / 100);
  all["top1_agreement"].value = 0.99;
  return all;
}

// Nine rounds around the value, the spread alike then and now; what one round met all points of it met.
std::vector<double> rounds(double value, double spread) {
  std::vector<double> values;
  for (const double mood : {0.3, -0.8, 1.0, -0.2, 0.0, 0.6, -1.0, -0.5, 0.7})
    values.push_back(value * (1.0 + spread * mood));
  return values;
}

NightlyPoint point(NightlyRole role, std::map<std::string, std::string> configuration, double then,
                   double now, double spread) {
  NightlyPoint made;
  made.role = role;
  made.configuration.values = std::move(configuration);
  made.then = metrics(then, spread);
  made.now = metrics(now, spread);
  made.rounds_then = rounds(then, spread);
  made.rounds_now = rounds(now, spread);
  return made;
}

// Three configurations, 9, 10 and 9.5 ms then; factors: how much slower each is now.
NightlyInput night(double baseline, double standard, double runner_up, double spread = 0.01) {
  NightlyInput input;
  input.objective.metric = "tpot_ms";
  input.gate = gate_named("int8");
  input.points = {
      point(NightlyRole::baseline, {{"top_k", "7"}, {"expert_quant", "int8"}}, 9.0, 9.0 * baseline, spread),
      point(NightlyRole::standard, {{"top_k", "8"}, {"expert_quant", "bf16"}}, 10.0, 10.0 * standard, spread),
      point(NightlyRole::runner_up, {{"top_k", "8"}, {"expert_quant", "int8"}}, 9.5, 9.5 * runner_up,
            spread)};
  compare_rounds(input.points, input.objective);
  return input;
}

TEST(NightlyCheck, NothingChangedIsOk) {
  const NightlyResult result = judge_nightly(night(1.0, 1.0, 1.0));
  EXPECT_EQ(result.verdict, NightlyVerdict::ok);
  EXPECT_NE(result.reason.find("tpot_ms is 0.0 % slower"), std::string::npos) << result.reason;
  EXPECT_TRUE(result.remarks.empty());
}

TEST(NightlyCheck, AnIntervalAboveHalfTheThresholdIsARegressionThatSaysWhereItIs) {
  const NightlyResult alone = judge_nightly(night(1.06, 1.0, 1.0));
  EXPECT_EQ(alone.verdict, NightlyVerdict::regression);
  EXPECT_NE(alone.reason.find("The canaries are not slower"), std::string::npos) << alone.reason;
  EXPECT_NE(alone.reason.find(": its interval lies above 2.5 %, half of the --threshold of 5 %."),
            std::string::npos)
      << alone.reason;
  const NightlyResult all = judge_nightly(night(1.06, 1.06, 1.07));
  EXPECT_EQ(all.verdict, NightlyVerdict::regression);
  EXPECT_NE(all.reason.find("The canaries are slower as well"), std::string::npos) << all.reason;
}

TEST(NightlyCheck, TheThresholdDecidesByTheIntervalNotByTheValue) {
  EXPECT_EQ(judge_nightly(night(1.02, 1.0, 1.0)).verdict, NightlyVerdict::ok)
      << "below half of it it is not searched for";
  EXPECT_EQ(judge_nightly(night(1.06, 1.0, 1.0, 0.2)).verdict, NightlyVerdict::indeterminate);
  EXPECT_EQ(judge_nightly(night(1.0, 1.0, 1.0, 0.2)).verdict, NightlyVerdict::indeterminate)
      << "too wide to say ok";
  NightlyInput coarse = night(1.06, 1.0, 1.0);
  coarse.threshold = 0.2;
  EXPECT_EQ(judge_nightly(coarse).verdict, NightlyVerdict::ok);
}

TEST(NightlyCheck, OtherWorkMakesItIndeterminateWithItsName) {
  for (const double factor : {1.0, 1.5}) {
    NightlyInput input = night(factor, 1.0, 1.0);
    input.other_work = {"cc1plus (process 17, 0.9 cores)"};
    const NightlyResult result = judge_nightly(input);
    EXPECT_EQ(result.verdict, NightlyVerdict::indeterminate);
    EXPECT_NE(result.reason.find("cc1plus (process 17"), std::string::npos);
  }
}

TEST(NightlyCheck, AnotherDeviceSizeOrModelIsStaleAndItsFieldsAreNamed) {
  for (const Rung rung : {Rung::other_size, Rung::other_device, Rung::other_model}) {
    NightlyInput input = night(1.0, 1.0, 1.0);
    input.staleness = {.rung = rung, .differences = {{"gpu_count", "1", "2", rung}}};
    const NightlyResult result = judge_nightly(input);
    EXPECT_EQ(result.verdict, NightlyVerdict::stale);
    EXPECT_NE(result.reason.find("gpu_count 1 then, 2 now"), std::string::npos) << result.reason;
  }
}

TEST(NightlyCheck, OtherSoftwareIsJudgedByTheTest) {
  const auto under = [](const char* field, double factor) {
    NightlyInput input = night(factor, factor, factor);
    input.staleness = {.rung = Rung::other_software,
                       .differences = {{field, "a", "b", Rung::other_software}}};
    return judge_nightly(input);
  };
  const NightlyResult same = under("driver", 1.0);
  EXPECT_EQ(same.verdict, NightlyVerdict::ok);
  ASSERT_EQ(same.remarks.size(), 1U) << "the other driver is said";
  EXPECT_NE(same.remarks[0].find("driver a then, b now"), std::string::npos);
  for (const char* field : {"driver", "cuda", "os"})
    for (const double factor : {1.1, 0.9}) {
      const NightlyResult moved = under(field, factor);
      EXPECT_EQ(moved.verdict, NightlyVerdict::stale) << field << " " << factor;
      EXPECT_NE(moved.reason.find(std::string(field) + " a then, b now"), std::string::npos) << moved.reason;
    }
  EXPECT_EQ(under("build", 1.1).verdict, NightlyVerdict::regression) << "another build is what is checked";
}

TEST(NightlyCheck, AProbedRateDecidesNothing) {
  for (const double factor : {1.0, 1.06, 0.9}) {
    NightlyInput input = night(factor, factor, factor);
    const NightlyVerdict without = judge_nightly(input).verdict;
    input.staleness = {.rung = Rung::other_rate,
                       .differences = {{"memory_gb_per_s", "20 GB/s", "9 GB/s", Rung::other_rate}}};
    EXPECT_EQ(judge_nightly(input).verdict, without);
    input.staleness.rung = Rung::other_software;
    input.staleness.differences.insert(input.staleness.differences.begin(),
                                       {"driver", "570", "580", Rung::other_software});
    const NightlyResult result = judge_nightly(input);
    EXPECT_EQ(result.reason.find("memory_gb_per_s"), std::string::npos) << result.reason;
    EXPECT_EQ(result.remarks.front().find("'moetune ci' does"), std::string::npos) << result.remarks.front();
  }
}

TEST(NightlyCheck, FasterIsOkAndSaysWhatToDo) {
  const NightlyResult result = judge_nightly(night(0.9, 0.9, 0.9));
  EXPECT_EQ(result.verdict, NightlyVerdict::ok);
  ASSERT_EQ(result.remarks.size(), 1U);
  EXPECT_NE(result.remarks[0].find("--retune"), std::string::npos);
}

TEST(NightlyCheck, ACanaryThatOvertookTheBaselineMakesItStale) {
  const NightlyResult result = judge_nightly(night(1.0, 0.8, 1.0));
  EXPECT_EQ(result.verdict, NightlyVerdict::stale);
  EXPECT_NE(result.reason.find("the default (expert_quant=bf16 top_k=8)"), std::string::npos)
      << result.reason;
  NightlyInput inaccurate = night(1.0, 1.0, 0.8);
  inaccurate.points[2].now = metrics(7.6, 0.05, 0.5);
  EXPECT_EQ(judge_nightly(inaccurate).verdict, NightlyVerdict::ok)
      << "a canary that misses the gate is no choice";
}

TEST(NightlyCheck, AGateIsLostOnlyWhereItWasMetAndIsMissedBeyondDoubt) {
  NightlyInput never = night(1.0, 1.0, 1.0);
  never.points[0].then = metrics(9.0, 0.01, 0.05);
  never.points[0].now = metrics(9.0, 0.01, 0.05);
  EXPECT_EQ(judge_nightly(never).verdict, NightlyVerdict::ok) << "it missed the gate then as well";
  NightlyInput near = night(1.0, 1.0, 1.0);
  near.points[0].now["kl_mean"] = time_of(0.0201, 0.001);
  EXPECT_EQ(judge_nightly(near).verdict, NightlyVerdict::ok) << "the interval reaches across the limit";
  near.points[0].now["kl_mean"] = time_of(0.0221, 0.001);
  EXPECT_EQ(judge_nightly(near).verdict, NightlyVerdict::regression);
}

TEST(NightlyCheck, AFailureOrALostGateIsARegression) {
  NightlyInput crashed = night(1.0, 1.0, 1.0);
  crashed.points[0].failure = "crashed: was killed by SIGSEGV";
  EXPECT_EQ(judge_nightly(crashed).verdict, NightlyVerdict::regression);
  NightlyInput wrong = night(1.0, 1.0, 1.0);
  wrong.points[0].now = metrics(9.0, 0.05, 0.5);
  const NightlyResult result = judge_nightly(wrong);
  EXPECT_EQ(result.verdict, NightlyVerdict::regression);
  EXPECT_NE(result.reason.find("misses the int8 gate"), std::string::npos) << result.reason;
  NightlyInput canary = night(1.0, 1.0, 1.0);
  canary.points[2].failure = "timed_out: no result within 5 s";
  const NightlyResult said = judge_nightly(canary);
  EXPECT_EQ(said.verdict, NightlyVerdict::ok);
  ASSERT_EQ(said.remarks.size(), 1U);
  EXPECT_NE(said.remarks[0].find("The runner-up could not be measured: timed_out"), std::string::npos);
}

TEST(NightlyCheck, WithoutAnIntervalNothingIsJudged) {
  NightlyInput input = night(1.5, 1.0, 1.0);
  input.points[0].slowdown.reset();
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::indeterminate);
  input.points.clear();
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::indeterminate);
}

TEST(NightlyCheck, OfARateTheReciprocalSlowsDown) {
  std::vector<NightlyPoint> points = {point(NightlyRole::baseline, {{"top_k", "7"}}, 110.0, 100.0, 0.01),
                                      point(NightlyRole::standard, {{"top_k", "8"}}, 100.0, 100.0, 0.01)};
  compare_rounds(points, objectives_named("tokens_per_s").front());
  ASSERT_TRUE(points[0].slowdown && points[1].slowdown && points[1].over_baseline);
  EXPECT_NEAR(points[0].slowdown->value, 0.1, 1e-9);
  EXPECT_NEAR(points[1].slowdown->value, 0.0, 1e-9);
  EXPECT_NEAR(points[1].over_baseline->value, 0.0, 1e-9);
  EXPECT_FALSE(points[0].over_baseline) << "against itself";
}

TEST(NightlyCheck, AProfileWithoutRoundsSaysHowToMakeOne) {
  NightlyInput input = night(1.5, 1.0, 1.0);
  input.points[0].slowdown.reset();
  input.points[0].rounds_then.clear();
  const NightlyResult result = judge_nightly(input);
  EXPECT_EQ(result.verdict, NightlyVerdict::indeterminate);
  EXPECT_NE(result.reason.find("The profile holds 0 rounds"), std::string::npos) << result.reason;
}

// A machine that changed its pace by so much in the middle of either night.
NightlyResult two_paces(double then, double now, double change) {
  NightlyInput input = night(1.0, 1.0, 1.0);
  const auto with_a_change = [&](double value) {
    std::vector<double> rounds;
    for (int round = 0; round < 20; ++round)
      rounds.push_back(value * (round < 10 ? 1.0 : change) + 0.0001 * round);
    return rounds;
  };
  input.points[0].rounds_then = with_a_change(then);
  input.points[0].rounds_now = with_a_change(now);
  compare_rounds(input.points, input.objective);
  return judge_nightly(input);
}

TEST(NightlyCheck, RoundsThatAreAllAlikeButForOneChangeOfPaceAreNotCountedAsMany) {
  const NightlyResult result = two_paces(9.0, 13.0, 1.4);
  EXPECT_EQ(result.verdict, NightlyVerdict::indeterminate) << result.reason;
  EXPECT_NE(result.reason.find("Tonight gave 20 rounds, but neighbours"), std::string::npos) << result.reason;
  EXPECT_NE(result.reason.find("6 independent ones are the fewest"), std::string::npos) << result.reason;
}

TEST(NightlyCheck, AChangeOfPaceHidesNoDifferenceThatIsFarBeyondIt) {
  const NightlyResult slow = two_paces(9.0, 78.0 * 9.0, 1.4);
  EXPECT_EQ(slow.verdict, NightlyVerdict::regression) << slow.reason;
  EXPECT_NE(slow.reason.find("7699.3 % slower (95 % interval"), std::string::npos) << slow.reason;
  const NightlyResult same = two_paces(9.0, 9.0, 1.004);
  EXPECT_EQ(same.verdict, NightlyVerdict::ok) << same.reason;
}

TEST(JudgeNightly, ABaselineMeasuredBesideOtherWorkIsNothingToCompareTimesWith) {
  NightlyInput input = night(1.0, 1.0, 1.0);
  ASSERT_EQ(judge_nightly(input).verdict, NightlyVerdict::ok);
  input.other_work_then = {"cc1plus (process 7, 1.20 cores)"};
  const NightlyResult result = judge_nightly(input);
  EXPECT_EQ(result.verdict, NightlyVerdict::indeterminate);
  EXPECT_NE(result.reason.find("beside other work (cc1plus (process 7, 1.20 cores))"), std::string::npos)
      << result.reason;
  input.points[0].failure = "crashed: SIGSEGV";
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::regression) << "that depends on no time";
  input.points[0].failure.clear();
  input.points[0].rounds_beside = input.points[0].rounds_now;
  compare_rounds(input.points, input.objective);
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::ok)
      << "the baseline's program ran in the same passes";
}

// top_k differs alone between baseline and runner-up, expert_quant alone between runner-up and default.
TEST(MovedKnobs, AreThoseInWhichPairsDifferWhoseRatioChanged) {
  const Objective objective = tpot();
  EXPECT_TRUE(moved_knobs(night(1.0, 1.0, 1.0).points, objective, 0.05).names.empty());
  EXPECT_TRUE(moved_knobs(night(1.3, 1.3, 1.3).points, objective, 0.05).names.empty())
      << "everything alike moves no knob";
  const MovedKnobs quant = moved_knobs(night(1.2, 1.0, 1.2).points, objective, 0.05);
  EXPECT_EQ(quant.names, std::vector<std::string>{"expert_quant"})
      << "int8 became slower, top_k acts as before";
  EXPECT_EQ(quant.reasons.size(), 2U);
  const MovedKnobs top_k = moved_knobs(night(1.2, 1.0, 1.0).points, objective, 0.05);
  EXPECT_EQ(top_k.names, std::vector<std::string>{"top_k"});
  std::vector<NightlyPoint> few = night(1.2, 1.0, 1.2).points;
  for (NightlyPoint& each : few) each.rounds_now.resize(1);
  compare_rounds(few, objective);
  EXPECT_TRUE(moved_knobs(few, objective, 0.05).names.empty()) << "not beyond doubt";
  EXPECT_EQ(moved_knobs(few, objective, 0.05).pairs_compared, 0) << "which is not the same as: none moved";
  EXPECT_GT(moved_knobs(night(1.0, 1.0, 1.0).points, objective, 0.05).pairs_compared, 0);
}

TEST(MovedKnobs, AFailureMakesSuspectsOfWhatDiffersFromTheDefault) {
  std::vector<NightlyPoint> points = night(1.0, 1.0, 1.0).points;
  points[2].failure = "crashed";
  points[2].slowdown.reset();
  EXPECT_EQ(moved_knobs(points, tpot(), 0.05).names, std::vector<std::string>{"expert_quant"});
}

// A night in which the machine is a third slower than when the profile was made; program: by how much this
// one is slower than the baseline's.
NightlyInput night_beside(double program) {
  NightlyInput input = night(1.33, 1.33, 1.33);
  input.points.front().rounds_beside = rounds(9.0 * 1.33 / program, 0.01);
  compare_rounds(input.points, input.objective);
  return input;
}

TEST(NightlyCheck, AgainstTheBaselinesProgramTheNightCancels) {
  EXPECT_EQ(judge_nightly(night(1.33, 1.33, 1.33)).verdict, NightlyVerdict::regression);
  const NightlyResult same = judge_nightly(night_beside(1.0));
  EXPECT_EQ(same.verdict, NightlyVerdict::ok) << same.reason;
  EXPECT_NE(same.reason.find("than with the baseline's program in the same passes"), std::string::npos)
      << same.reason;
  ASSERT_EQ(same.remarks.size(), 1U);
  EXPECT_NE(same.remarks[0].find("Against the numbers of the profile, another night's: 33.0 % slower"),
            std::string::npos)
      << same.remarks[0];
  const NightlyResult slower = judge_nightly(night_beside(1.06));
  EXPECT_EQ(slower.verdict, NightlyVerdict::regression);
  EXPECT_NE(slower.reason.find("6.0 % slower"), std::string::npos) << slower.reason;
  EXPECT_NE(slower.reason.find("it is the program, not the machine"), std::string::npos) << slower.reason;
}

TEST(NightlyCheck, AnotherDriverIsNoExcuseWhereBothProgramsRanUnderIt) {
  NightlyInput input = night_beside(1.06);
  input.staleness = {.rung = Rung::other_software,
                     .differences = {{"driver", "1", "2", Rung::other_software}}};
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::regression);
}

TEST(NightlyCheck, ABaselineProgramThatFailsIsSaidAndTheProfileStandsIn) {
  NightlyInput input = night(1.0, 1.0, 1.0);
  input.beside_failure = "crashed: was killed by SIGSEGV";
  const NightlyResult result = judge_nightly(input);
  EXPECT_EQ(result.verdict, NightlyVerdict::ok);
  ASSERT_EQ(result.remarks.size(), 1U);
  EXPECT_NE(result.remarks[0].find("could not be measured (crashed: was killed by SIGSEGV)"),
            std::string::npos);
}

TEST(NightlyCheck, AProfileWithoutRoundsCanBeCheckedByItsProgram) {
  NightlyInput input = night(1.0, 1.0, 1.0);
  for (NightlyPoint& each : input.points) each.rounds_then.clear(), each.slowdown.reset();
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::indeterminate);
  input.points.front().rounds_beside = rounds(9.0, 0.01);
  compare_rounds(input.points, input.objective);
  EXPECT_EQ(judge_nightly(input).verdict, NightlyVerdict::ok);
  EXPECT_TRUE(judge_nightly(input).remarks.empty());
}

}  // namespace
}  // namespace moetune
