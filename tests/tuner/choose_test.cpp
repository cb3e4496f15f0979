#include "tuner/choose.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {
using Verdict = Recommendation::Verdict;

// A run with invented numbers: top_k 8 and checkpoint weights are the default, 0.5 ms per token.
struct InventedRun {
  std::vector<Trial> trials;
  Configuration default_configuration{{{"expert_quant", "checkpoint"}, {"router", "cpu"}, {"top_k", "8"}}};
  std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean,device_bytes");
  std::string gate = "int8";
  std::optional<Slo> slo;
  bool slo_required = false;

  Trial& add(const std::map<std::string, std::string>& changes, double tpot, double half_width, double kl,
             double agreement = 0.97) {
    Trial trial;
    trial.number = static_cast<std::int64_t>(trials.size());
    trial.configuration = default_configuration;
    for (const auto& [name, value] : changes) trial.configuration.values[name] = value;
    Measurement time;
    time.value = tpot;
    time.low = tpot - half_width;
    time.high = tpot + half_width;
    time.n = 40;
    trial.metrics["tpot_ms"] = time;
    trial.metrics["kl_mean"].value = kl;
    trial.metrics["top1_agreement"].value = agreement;
    trials.push_back(trial);
    return trials.back();
  }
  Trial& add_failed(const std::map<std::string, std::string>& changes, Outcome outcome,
                    const std::string& reason) {
    Trial& trial = add(changes, 1, 0, 0);
    trial.outcome = outcome;
    trial.reason = reason;
    trial.metrics.clear();
    return trial;
  }
  Trial& add_synthetic(const std::map<std::string, std::string>& changes, double tpot) {
    Trial& trial = add(changes, tpot, 0.01, 0);
    trial.metrics.erase("kl_mean");
    trial.metrics.erase("top1_agreement");
    trial.metrics["output_snr_db"].value = 30.0;
    return trial;
  }
  Recommendation choice() const {
    return choose({trials, gate_named(gate), objectives, default_configuration, accuracy_parameters(), slo,
                   slo_required});
  }
};

TEST(Choose, ReplacesTheDefaultByTheFastestThatMeetsTheGate) {
  InventedRun run;
  run.add({}, 0.5, 0.01, 0.0, 1.0).metrics["device_bytes"].value = 20.0 * 1048576;
  run.add({{"top_k", "7"}, {"expert_quant", "int8"}}, 0.41, 0.01, 0.008).metrics["device_bytes"].value =
      12.0 * 1048576;
  run.add({{"top_k", "1"}, {"expert_quant", "int4"}}, 0.2, 0.01, 2.1, 0.4);
  run.add({{"expert_quant", "int8"}}, 0.45, 0.01, 0.001);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::replaced);
  EXPECT_EQ(choice.trial, 1);
  EXPECT_EQ(choice.reason,
            "expert_quant int8, top_k 7: 0.410 ms per token (0.400-0.420), 18 % under the default's 0.500 ms "
            "per token "
            "(0.490-0.510); meets the int8 gate: KL 0.00800 <= 0.02, top-1 agreement 97.0 % >= 95 %. Also: "
            "device_bytes "
            "12.0 MiB (default 20.0 MiB). Best of what is not acceptable, expert_quant int4, top_k 1: 0.200 "
            "ms per token "
            "(0.190-0.210); misses the int8 gate: KL 2.10 > 0.02, top-1 agreement 40.0 % < 95 %.");
  EXPECT_EQ(choice.runner_up, 3);
  EXPECT_EQ(choice.why_not_runner_up, "expert_quant int8: 0.450 ms per token (0.440-0.460), 9.8 % worse");
}

TEST(Choose, AWiderGateAcceptsMore) {
  InventedRun run;
  run.add({}, 0.5, 0.01, 0.0, 1.0);
  run.add({{"top_k", "7"}}, 0.45, 0.01, 0.0015, 0.985);
  run.add({{"top_k", "6"}}, 0.40, 0.01, 0.015, 0.96);
  run.add({{"top_k", "5"}}, 0.35, 0.01, 0.035, 0.94);
  run.add({{"top_k", "1"}}, 0.20, 0.01, 2.0, 0.4);
  const std::map<std::string, std::int64_t> expected{{"lossless", 1}, {"int8", 2}, {"int4", 3}, {"none", 4}};
  for (const auto& [gate, trial] : expected) {
    run.gate = gate;
    EXPECT_EQ(run.choice().trial, trial) << gate;
  }
}

TEST(Choose, OverlappingIntervalsAreNoReason) {
  InventedRun run;
  run.add({}, 0.50, 0.02, 0.0, 1.0);
  run.add({{"top_k", "7"}}, 0.47, 0.02, 0.001);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::indeterminate);
  EXPECT_EQ(choice.trial, 0);
  EXPECT_TRUE(has_text(choice.reason, "The default configuration stays: 0.500 ms per token (0.480-0.520)"));
  EXPECT_TRUE(has_text(choice.reason,
                       "Indeterminate: top_k 7: 0.470 ms per token (0.450-0.490) looks 6.0 % better, "
                       "but the intervals overlap."));
  EXPECT_EQ(choice.runner_up, 1);
  EXPECT_TRUE(
      has_text(choice.why_not_runner_up, "6.0 % better, but not better than the default beyond doubt"));
}

TEST(Choose, TouchingIntervalsOverlap) {
  InventedRun run;
  run.add({}, 0.50, 0.0, 0.0, 1.0);
  run.add({{"top_k", "7"}}, 0.50, 0.0, 0.001);
  EXPECT_EQ(run.choice().verdict, Verdict::default_stays);
  run.add({{"top_k", "6"}}, 0.49, 0.0, 0.001);
  EXPECT_EQ(run.choice().verdict, Verdict::replaced);
}

TEST(Choose, WithoutAnIntervalNothingIsBeyondDoubt) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  Trial& few = run.add({{"top_k", "7"}}, 0.1, 0.01, 0.001);
  few.metrics["tpot_ms"].low.reset();
  few.metrics["tpot_ms"].high.reset();
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::indeterminate);
  EXPECT_TRUE(has_text(choice.reason, "too few samples for an interval"));
}

TEST(Choose, BytesAreTheirOwnInterval) {
  InventedRun run;
  run.objectives = objectives_named("device_bytes,kl_mean");
  run.add({}, 0.5, 0.01, 0.0, 1.0).metrics["device_bytes"].value = 2000;
  run.add({{"expert_quant", "int8"}}, 0.5, 0.01, 0.001).metrics["device_bytes"].value = 1000;
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::replaced);
  EXPECT_TRUE(has_text(choice.reason, "expert_quant int8: 1000 bytes, 50 % under the default's 1.95 KiB;"));
}

TEST(Choose, WithinOnePerCentFewerChangesWin) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"top_k", "7"}, {"expert_quant", "int8"}, {"router", "gpu"}}, 0.400, 0.01, 0.001);
  run.add({{"top_k", "7"}}, 0.4035, 0.01, 0.001);
  run.add({{"top_k", "6"}}, 0.4045, 0.01, 0.001);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.trial, 2);
  EXPECT_EQ(choice.runner_up, 1);
  EXPECT_TRUE(has_text(choice.why_not_runner_up,
                       "0.9 % better, but within 1 %, and it takes 3 changes from the default instead of 1"));
}

TEST(Choose, OnlyThoseThatClearTheDefaultCompete) {
  // The simpler one is within 1 % of the best, but its interval is wide: it does not count.
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"top_k", "7"}, {"expert_quant", "int8"}}, 0.400, 0.01, 0.001);
  run.add({{"top_k", "7"}}, 0.401, 0.2, 0.001);
  EXPECT_EQ(run.choice().trial, 1);
}

TEST(Choose, TiesGoToTheEarlierTrial) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"top_k", "6"}}, 0.4, 0.01, 0.001);
  run.add({{"top_k", "7"}}, 0.4, 0.01, 0.001);
  EXPECT_EQ(run.choice().trial, 1);
}

TEST(Choose, TheDefaultMaySimplyBeBest) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"router", "gpu"}}, 0.60, 0.01, 0.0, 1.0);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::default_stays);
  EXPECT_EQ(choice.trial, 0);
  EXPECT_TRUE(has_text(choice.reason, "No acceptable configuration was measured to be better."));
  EXPECT_EQ(choice.runner_up, 1);
  EXPECT_TRUE(has_text(choice.why_not_runner_up, "20 % worse"));
}

TEST(Choose, MoreMayBeBetter) {
  InventedRun run;
  run.objectives = objectives_named("tokens_per_s,kl_mean");
  const auto add = [&](const std::map<std::string, std::string>& changes, double rate) {
    Measurement measurement;
    measurement.value = rate;
    measurement.low = rate - 1;
    measurement.high = rate + 1;
    run.add(changes, 1, 0.1, 0.001).metrics["tokens_per_s"] = measurement;
  };
  add({}, 100);
  add({{"top_k", "7"}}, 120);
  add({{"top_k", "6"}}, 90);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.trial, 1);
  EXPECT_TRUE(has_text(choice.reason,
                       "top_k 7: 120 tokens/s (119-121), 20 % over the default's 100 tokens/s (99.0-101.0)"));
}

TEST(Choose, WithoutADefaultTheBestOfTheRest) {
  InventedRun run;
  run.add_failed({}, Outcome::out_of_memory, "needs 3 MB more");
  run.add({{"top_k", "7"}}, 0.45, 0.01, 0.001);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::no_default);
  EXPECT_EQ(choice.trial, 1);
  EXPECT_TRUE(
      has_text(choice.reason,
               "could not be measured (out_of_memory: needs 3 MB more), so there is nothing to compare"));
  run.trials.erase(run.trials.begin());
  EXPECT_TRUE(has_text(run.choice().reason, "The default configuration was not measured"));
}

TEST(Choose, SaysWhenNothingMeetsTheGate) {
  InventedRun run;
  run.gate = "lossless";
  run.add_failed({}, Outcome::crashed, "signal 11");
  run.add({{"top_k", "1"}}, 0.2, 0.01, 2.0, 0.4);
  run.add({{"top_k", "7"}}, 0.45, 0.01, 0.003, 0.975);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_meets_gate);
  EXPECT_FALSE(choice.trial.has_value());
  EXPECT_EQ(choice.reason,
            "No recommendation: none of 2 measured configurations meets the lossless gate. The nearest, "
            "top_k 7: 0.450 ms "
            "per token (0.440-0.460); misses the lossless gate: KL 0.00300 > 0.002, top-1 agreement 97.5 % < "
            "98 %.");
  EXPECT_EQ(choice.runner_up, 2);
}

// The default takes too long, and what does not is of unknown accuracy.
TEST(Choose, SaysWhatWouldRecommendWithoutAccuracy) {
  InventedRun run;
  run.add_failed({}, Outcome::timed_out, "one run takes 140 s");
  run.add_synthetic({{"expert_quant", "int4"}}, 0.2);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_meets_gate);
  EXPECT_TRUE(has_text(choice.reason, "'--gate none' recommends by speed alone."));
  run.gate = "none";
  EXPECT_EQ(run.choice().trial, 1);
}

TEST(Choose, SaysWhenNothingWasMeasured) {
  InventedRun run;
  EXPECT_EQ(run.choice().reason, "No recommendation: nothing was measured.");
  run.add_failed({}, Outcome::out_of_memory, "needs 3 MB more");
  run.add_failed({{"top_k", "7"}}, Outcome::out_of_memory, "needs 2 MB more");
  run.add_failed({{"top_k", "6"}}, Outcome::crashed, "signal 11");
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_measured);
  EXPECT_EQ(choice.reason,
            "No recommendation: no trial could be measured (1 crashed, 2 out_of_memory). The first one: "
            "needs 3 MB more.");
  EXPECT_FALSE(has_text(choice.reason, "--budget")) << "time would not help";
  InventedRun slow;
  slow.add_failed({}, Outcome::timed_out, "no result within 30 s");
  EXPECT_TRUE(
      has_text(slow.choice().reason, "More time helps (a larger --budget, or --trial-limit), or less"));
}

TEST(Choose, SyntheticWeightsKeepTopKAndNumberTypes) {
  InventedRun run;
  run.add_synthetic({}, 0.5);
  run.add_synthetic({{"top_k", "4"}}, 0.3);
  run.add_synthetic({{"expert_quant", "int4"}}, 0.2);
  run.add_synthetic({{"router", "gpu"}}, 0.4);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.trial, 3);
  EXPECT_TRUE(has_text(choice.reason,
                       "accuracy unknown (synthetic weights have none), but it keeps the model's own top-k "
                       "and number types"));
  EXPECT_TRUE(has_text(choice.reason, "Best of what is not acceptable, expert_quant int4: 0.200"));
  run.gate = "none";
  EXPECT_EQ(run.choice().trial, 2);
}

TEST(Choose, AReMeasuredFinalistCountsAsItWasMeasuredLast) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"top_k", "7"}}, 0.30, 0.01, 0.001);  // luck
  run.add({{"top_k", "6"}}, 0.40, 0.01, 0.001);
  run.add({{"top_k", "7"}}, 0.45, 0.01, 0.001);
  EXPECT_EQ(run.choice().trial, 2);
  run.add({}, 0.38, 0.01, 0.0, 1.0);  // so does the default
  EXPECT_EQ(run.choice().trial, 4);
}

TEST(Choose, NamesTheServiceLevel) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0).metrics["tpot_ms"].p99 = 0.9;
  EXPECT_EQ(run.choice().reason.find("service level"), std::string::npos);
  run.slo = Slo{"tpot_p99", 1.0};
  EXPECT_TRUE(has_text(run.choice().reason, " Meets the service level tpot_p99 <= 1 ms: 0.900 ms."));
  run.slo = Slo{"tpot_p99", 0.5};
  EXPECT_TRUE(has_text(run.choice().reason,
                       " Misses the service level tpot_p99 <= 0.5 ms: 0.900 ms; no acceptable "
                       "configuration keeps it."));
  run.slo = Slo{"ttft", 200.0};
  EXPECT_TRUE(has_text(run.choice().reason,
                       " The service level ttft <= 200 ms is not known to be kept: it was not measured."));
}

TEST(Choose, ARequiredServiceLevelThatNothingKeepsRecommendsNothing) {
  InventedRun run;
  run.slo = Slo{"tpot_p99", 0.5};
  run.slo_required = true;
  run.add({}, 0.50, 0.01, 0.0, 1.0).metrics["tpot_ms"].p99 = 0.9;
  run.add({{"top_k", "7"}}, 0.60, 0.01, 0.001).metrics["tpot_ms"].p99 = 0.7;
  run.add({{"expert_quant", "int4"}}, 0.20, 0.01, 2.1, 0.4).metrics["tpot_ms"].p99 =
      0.3;  // too inaccurate to count
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_keeps_slo);
  EXPECT_FALSE(choice.trial);
  EXPECT_TRUE(has_text(choice.reason, "none of 2 acceptable configurations keeps the service level"));
  EXPECT_TRUE(
      has_text(choice.reason,
               "The nearest, top_k 7: 0.600 ms per token (0.590-0.610), misses the service level tpot_p99 <= "
               "0.5 ms: 0.700 ms."));
  run.add({{"top_k", "6"}}, 0.70, 0.01, 0.001).metrics["tpot_ms"].p99 = 0.4;
  EXPECT_EQ(run.choice().trial, 3) << "slower, but it keeps the level";
}

TEST(Choose, AMedianAboveTheLevelMissesAP99ThatIsNotKnown) {
  InventedRun run;
  run.slo = Slo{"tpot_p99", 0.4};
  run.slo_required = true;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  run.add({{"top_k", "7"}}, 0.45, 0.01, 0.001);
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::nothing_keeps_slo);
  EXPECT_FALSE(choice.trial);
  EXPECT_TRUE(has_text(choice.reason,
                       "The nearest, top_k 7: 0.450 ms per token (0.440-0.460), misses the service level "
                       "tpot_p99 <= 0.4 ms: its median alone is 0.450 ms."));
  run.add({{"top_k", "6"}}, 0.41, 0.02, 0.001);
  EXPECT_EQ(run.choice().trial, 2) << "its interval reaches below the level: nothing says that it misses it";
  EXPECT_TRUE(has_text(run.choice().reason, "is not known to be kept: too few samples"));
}

TEST(Choose, ARequiredServiceLevelThatIsNotKnownToBeMissedIsNoObstacle) {
  InventedRun run;
  run.slo = Slo{"tpot_p99", 0.5};
  run.slo_required = true;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  EXPECT_EQ(run.choice().trial, 0);
}

TEST(Choose, TheServiceLevelExcludesWhatMissesIt) {
  InventedRun run;
  run.slo = Slo{"tpot_p99", 1.0};
  run.add({}, 0.50, 0.01, 0.0, 1.0).metrics["tpot_ms"].p99 = 0.9;
  run.add({{"top_k", "7"}}, 0.40, 0.01, 0.001).metrics["tpot_ms"].p99 = 1.5;
  run.add({{"top_k", "6"}}, 0.45, 0.01, 0.001).metrics["tpot_ms"].p99 = 0.8;
  const Recommendation choice = run.choice();
  EXPECT_EQ(choice.verdict, Verdict::replaced);
  EXPECT_EQ(choice.trial, 2);
  EXPECT_TRUE(has_text(choice.reason,
                       "Best of what is not acceptable, top_k 7: 0.400 ms per token (0.390-0.410); misses "
                       "the service level tpot_p99 <= 1 ms: 1.50 ms."));
  // A default that misses it is no yardstick.
  run.trials[0].metrics["tpot_ms"].p99 = 2.0;
  const Recommendation other = run.choice();
  EXPECT_EQ(other.verdict, Verdict::no_default);
  EXPECT_EQ(other.trial, 2);
  EXPECT_TRUE(
      has_text(other.reason, "is no contender: it misses the service level tpot_p99 <= 1 ms: 2.00 ms."));
}

TEST(Choose, OrderOfTheLogDoesNotMatterForTheChoice) {
  InventedRun run;
  run.add({}, 0.50, 0.01, 0.0, 1.0);
  for (int k = 1; k < 8; ++k) run.add({{"top_k", std::to_string(k)}}, 0.3 + 0.02 * k, 0.01, 0.05 - 0.006 * k);
  const Recommendation forwards = run.choice();
  std::reverse(run.trials.begin(), run.trials.end());
  EXPECT_EQ(run.choice().trial, forwards.trial);
  EXPECT_EQ(run.choice().reason, forwards.reason);
}

}  // namespace
}  // namespace moetune
