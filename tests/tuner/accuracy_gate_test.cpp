#include "tuner/accuracy_gate.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

Metrics accuracy(double kl, double agreement) {
  Metrics metrics;
  metrics["kl_mean"].value = kl;
  metrics["top1_agreement"].value = agreement;
  return metrics;
}

GateVerdict verdict(const char* gate, double kl, double agreement) {
  return judge(accuracy(kl, agreement), gate_named(gate)).verdict;
}

TEST(AccuracyGate, LimitsAreTheContracts) {
  EXPECT_EQ(verdict("lossless", 0.002, 0.98), GateVerdict::met);
  EXPECT_EQ(verdict("lossless", 0.0021, 0.98), GateVerdict::missed);
  EXPECT_EQ(verdict("lossless", 0.002, 0.979), GateVerdict::missed);
  EXPECT_EQ(verdict("int8", 0.02, 0.95), GateVerdict::met);
  EXPECT_EQ(verdict("int8", 0.021, 0.95), GateVerdict::missed);
  EXPECT_EQ(verdict("int4", 0.04, 0.93), GateVerdict::met);
  EXPECT_EQ(verdict("int4", 0.04, 0.929), GateVerdict::missed);
  EXPECT_EQ(verdict("none", 5.0, 0.0), GateVerdict::met);
}

TEST(AccuracyGate, SaysWhatItFound) {
  EXPECT_EQ(judge(accuracy(0.00812, 0.971), gate_named("int8")).words,
            "meets the int8 gate: KL 0.00812 <= 0.02, top-1 agreement 97.1 % >= 95 %");
  EXPECT_EQ(judge(accuracy(0.05, 0.971), gate_named("int8")).words,
            "misses the int8 gate: KL 0.0500 > 0.02, top-1 agreement 97.1 % >= 95 %");
}

TEST(AccuracyGate, SaysWhenAnIntervalReachesAcross) {
  Metrics metrics = accuracy(0.019, 0.971);
  metrics["kl_mean"].low = 0.017;
  metrics["kl_mean"].high = 0.021;
  const GateJudgement judgement = judge(metrics, gate_named("int8"));
  EXPECT_EQ(judgement.verdict, GateVerdict::met);
  EXPECT_TRUE(judgement.straddles);
  EXPECT_TRUE(has_text(judgement.words, "reaches across the limit"));
  metrics["kl_mean"].high = 0.0195;
  EXPECT_FALSE(judge(metrics, gate_named("int8")).straddles);
}

TEST(AccuracyGate, UnknownAccuracyIsNotAnAccuracyOfZero) {
  Metrics synthetic;
  synthetic["output_snr_db"].value = 40.0;
  EXPECT_TRUE(is_synthetic(synthetic));
  EXPECT_EQ(judge(synthetic, gate_named("int4")).verdict, GateVerdict::unknown);
  EXPECT_EQ(judge(synthetic, gate_named("none")).verdict, GateVerdict::met);
  Metrics half;
  half["kl_mean"].value = 0.0;
  EXPECT_EQ(judge(half, gate_named("int4")).verdict, GateVerdict::unknown);
  EXPECT_FALSE(is_synthetic(half));
  EXPECT_FALSE(is_synthetic({}));
}

TEST(AccuracyGate, NamesTheAcceptedOnes) {
  EXPECT_TRUE(has_text(message_of<InputError>([] { gate_named("fp8"); }),
                       "--gate: no gate named 'fp8' (accepted: lossless, int8, int4, none)"));
}

}  // namespace
}  // namespace moetune
