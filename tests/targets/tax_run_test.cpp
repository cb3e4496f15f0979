// The tax of real runs of the embedded model. Only structure is looked at here, and sums: how long anything
// takes is the machine's business, and a refusal is as good an answer as a breakdown.
#include "tuner/targets/tax_run.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/tiny_moe_runs.h"

namespace moetune {
namespace {

class TaxRun : public testing::TinyMoeRuns {
 protected:
  TaxResult tax(const Workload& workload, const EngineOptions& options = {}) {
    Engine engine(checkpoint_, options, limits_of(workload, options));
    TaxResult result = measure_tax(engine, workload, text_, 0.0, {});
    const std::size_t recorded = result.last_steps.size();
    run_workload(engine, workload, text_, 1);  // nothing of it is recorded any more
    EXPECT_EQ(result.last_steps.size(), recorded);
    return result;
  }
  static Workload workload(int sequences, int rounds) {
    Workload workload;
    workload.prompt_tokens = 12;
    workload.output_tokens = 30;
    workload.sequences = sequences;
    workload.rounds = rounds;
    workload.round_prompt_tokens = rounds > 1 ? 5 : 0;
    return workload;
  }
};

void expect_adds_up(const Breakdown& breakdown) {
  const double sum = std::accumulate(breakdown.exposed_ns.begin(), breakdown.exposed_ns.end(), 0.0) +
                     breakdown.unexplained_ns;
  EXPECT_NEAR(sum, breakdown.token_ns, 1e-6 * breakdown.token_ns);
  EXPECT_GT(breakdown.token_ns, 0.0);
  EXPECT_GT(breakdown.n, 0);
}

TEST_F(TaxRun, PartsAddUpToTheTimeOfPlainTokens) {
  const TaxResult result = tax(workload(2, 1));
  EXPECT_EQ(result.recorded_runs, 2);
  expect_adds_up(result.decode.typical);
  expect_adds_up(result.prefill.typical);
  for (const PhaseTax* phase : {&result.decode, &result.prefill}) {
    ASSERT_TRUE(phase->token_spread && phase->tax_spread);
    EXPECT_TRUE(phase->token_spread->is_range) << "of two runs";
    EXPECT_LE(phase->token_spread->ns.low, phase->typical.token_ns);
    EXPECT_GE(phase->token_spread->ns.high, phase->typical.token_ns);
    EXPECT_LE(phase->tax_spread->ns.low, phase->typical.tax_ns());
    EXPECT_GE(phase->tax_spread->ns.high, phase->typical.tax_ns());
  }
  EXPECT_TRUE(result.rounds.empty());
  // 2 recorded runs of 29 steps: too few for a slowest hundredth.
  EXPECT_FALSE(result.decode.slowest);
  for (const Part part : {Part::communication, Part::expert_loading})
    EXPECT_EQ(result.decode.typical.exposed_ns[static_cast<std::size_t>(part)], 0.0);
  EXPECT_GT(result.decode.typical.row_ns[static_cast<std::size_t>(Row::attention)], 0.0);
}

TEST_F(TaxRun, AnAgentsRoundsAreApart) {
  const TaxResult result = tax(workload(1, 3));
  ASSERT_EQ(result.rounds.size(), 3U);
  for (const RoundTax& round : result.rounds) expect_adds_up(round.whole);
  expect_adds_up(result.task);
  EXPECT_GT(result.task.token_ns, result.rounds.back().whole.token_ns);
  ASSERT_TRUE(tax(workload(1, 4)).decode.slowest);  // 2 x 4 x 29 steps
}

TEST_F(TaxRun, MissesAreLoading) {
  EngineOptions half;
  half.expert_cache_fraction = 0.5;
  const TaxResult result = tax(workload(1, 1), half);
  EXPECT_GT(result.decode.typical_causes.expert_loads, 0.0);
  EXPECT_GT(result.decode.typical.exposed_ns[static_cast<std::size_t>(Part::expert_loading)], 0.0);
}

TEST_F(TaxRun, TheLastRunIsThereForATimeline) {
  const Workload asked = workload(2, 1);
  const TaxResult result = tax(asked);
  EXPECT_EQ(result.last_steps.size(), 2U + 29U);  // a prompt per sequence, then steps of both
  std::size_t intervals = 0;
  for (const RecordedStep& step : result.last_steps) {
    EXPECT_EQ(step.first, intervals);
    intervals += step.count;
  }
  EXPECT_EQ(intervals, result.last_intervals.size());
}

TEST_F(TaxRun, ArrivalsAreNotWaitedFor) {
  Workload poisson = workload(2, 1);
  poisson.poisson_arrivals = true;
  poisson.arrivals_per_s = 1e-6;
  expect_adds_up(tax(poisson).decode.typical);
}

TEST(TaxMetrics, AreThoseOfTheDecodedToken) {
  Breakdown decode;
  decode.token_ns = 2e6;
  decode.exposed_ns[static_cast<std::size_t>(Part::launch_gaps)] = 5e5;
  decode.exposed_ns[static_cast<std::size_t>(Part::compute)] = 1.6e6;
  decode.unexplained_ns = -1e5;
  decode.n = 7;
  const Metrics metrics = tax_metrics(decode);
  EXPECT_EQ(metrics.size(), 2 + kParts + 1);
  EXPECT_DOUBLE_EQ(metrics.at("tax_token_ms").value, 2.0);
  double sum = 0.0;
  for (const auto& [name, part] : metrics)
    if (name != "tax_share" && name != "tax_token_ms") sum += part.value;
  EXPECT_DOUBLE_EQ(sum, 2.0) << "which token's time the parts split";
  EXPECT_DOUBLE_EQ(metrics.at("tax_share").value, 0.25);
  EXPECT_DOUBLE_EQ(metrics.at("tax_launch_gaps_ms").value, 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("tax_unexplained_ms").value, -0.1);
  EXPECT_EQ(metrics.at("tax_compute_ms").n, 7);
  decode.refused = "too slow";
  EXPECT_TRUE(tax_metrics(decode).empty());
}

TEST(TaxMetrics, ShortRunsAreWorthRecording) {
  Workload workload;
  workload.output_tokens = 100;
  EXPECT_TRUE(is_worth_recording(workload, 10'000.0, 1.0));
  EXPECT_FALSE(is_worth_recording(workload, 100.0, 1.0));
}

}  // namespace
}  // namespace moetune
