#include "tuner/objective.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

TEST(Objectives, ComeWithDirectionAndLimit) {
  const auto objectives = objectives_named("tpot_ms,kl_mean,top1_agreement");
  ASSERT_EQ(objectives.size(), 3U);
  EXPECT_EQ(objectives[0].metric, "tpot_ms");
  EXPECT_FALSE(objectives[0].maximize);
  EXPECT_FALSE(objectives[0].limit.has_value());
  EXPECT_EQ(objectives[1].limit, 0.04);
  EXPECT_TRUE(objectives[2].maximize);
  EXPECT_EQ(objectives[2].limit, 0.93);
}

TEST(Objectives, RefuseWhatIsNotOne) {
  const auto refusal = [](const char* text) {
    return message_of<InputError>([&] { objectives_named(text); });
  };
  EXPECT_TRUE(
      has_text(refusal("tpot"), "--objective: no objective named 'tpot' (accepted: tpot_ms, ttft_ms"));
  EXPECT_TRUE(has_text(refusal(""), "an empty name"));
  EXPECT_TRUE(has_text(refusal("tpot_ms,"), "an empty name"));
  EXPECT_TRUE(has_text(refusal("tpot_ms,kl_mean,tpot_ms"), "'tpot_ms' is there twice"));
  EXPECT_TRUE(has_text(refusal("tpot_ms,ttft_ms,kl_mean,kl_p99,host_bytes"), "5 metrics (accepted: 1 to 4)"));
  EXPECT_TRUE(has_text(refusal("link_gb_s"), "no objective named"));  // neither more nor less is better
}

Trial trial_with(const Metrics& metrics, Outcome outcome = Outcome::ok) {
  Trial trial;
  trial.outcome = outcome;
  trial.metrics = metrics;
  return trial;
}

Measurement value(double number) {
  Measurement measurement;
  measurement.value = number;
  return measurement;
}

TEST(ValuesOf, AreAllToBeMinimised) {
  const auto objectives = objectives_named("tpot_ms,top1_agreement");
  const Metrics metrics{{"tpot_ms", value(0.5)}, {"top1_agreement", value(0.97)}, {"kl_mean", value(0.1)}};
  EXPECT_EQ(values_of(trial_with(metrics), objectives), (std::vector<double>{0.5, -0.97}));
}

TEST(ValuesOf, AreEmptyForAFailedOrIncompleteTrial) {
  const auto objectives = objectives_named("tpot_ms,kl_mean");
  const Metrics both{{"tpot_ms", value(0.5)}, {"kl_mean", value(0.01)}};
  EXPECT_TRUE(values_of(trial_with(both), objectives).has_value());
  EXPECT_FALSE(values_of(trial_with(both, Outcome::wrong_output), objectives).has_value());
  EXPECT_FALSE(values_of(trial_with({{"tpot_ms", value(0.5)}}), objectives).has_value());
  const Metrics broken{{"tpot_ms", value(0.5)}, {"kl_mean", value(std::numeric_limits<double>::quiet_NaN())}};
  EXPECT_FALSE(values_of(trial_with(broken), objectives).has_value());
}

TEST(MetricFacts, WriteValuesForPeople) {
  EXPECT_EQ(value_text("tpot_ms", 0.41234), "0.412 ms per token");
  EXPECT_EQ(value_text("tpot_ms", 0.9996), "1.00 ms per token") << "three digits, not four";
  EXPECT_EQ(value_text("tpot_ms", 9.997), "10.0 ms per token");
  EXPECT_EQ(value_text("tpot_ms", 12.34), "12.3 ms per token");
  EXPECT_EQ(value_text("tpot_ms", 1234.5), "1234 ms per token");
  EXPECT_EQ(value_text("kl_mean", 0.00812), "0.00812 nats");
  EXPECT_EQ(value_text("kl_mean", 0.0), "0 nats");
  EXPECT_EQ(value_text("kl_mean", 3.2e-7), "3.20e-07 nats");
  EXPECT_EQ(value_text("top1_agreement", 0.9712), "97.1 %");
  EXPECT_EQ(value_text("device_bytes", 13841203.0), "13.2 MiB");
  EXPECT_EQ(value_text("device_bytes", 512.0), "512 bytes");
  EXPECT_EQ(value_text("perplexity_ratio", 1.0123), "1.01x");
  EXPECT_EQ(value_text("no_such_metric", 2.0), "no_such_metric 2.00");
  EXPECT_EQ(number_text("device_bytes", 13841203.0), "13.2");
}

// Both ends of an interval have as many decimals, unless they are of quite another size.
TEST(IntervalText, EndsHaveTheSameDecimals) {
  EXPECT_EQ(interval_text("tpot_ms", 0.9996, 1.003), "1.00-1.00");
  EXPECT_EQ(interval_text("tpot_ms", 0.99, 1.01), "0.990-1.010");
  EXPECT_EQ(interval_text("tokens_per_s", 99.4, 101.2, " - "), "99.4 - 101.2");
  EXPECT_EQ(interval_text("tpot_ms", 0.0123, 4.2), "0.0123-4.20");
  EXPECT_EQ(interval_text("kl_mean", 0.0, 0.0123), "0-0.0123");
  EXPECT_EQ(interval_text("top1_agreement", 0.97, 1.0), "97.0-100.0");
  EXPECT_EQ(interval_text("device_bytes", 9.5 * 1048576.0, 10.5 * 1048576.0), "9.50-10.5");
}

}  // namespace
}  // namespace moetune
