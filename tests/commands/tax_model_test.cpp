// How long the points of `tax --sweep` take, said before they begin.
#include "tuner/commands/tax_model.h"

#include <gtest/gtest.h>

#include "engine/option_rules.h"
#include "tests/support/source_dir.h"

namespace moetune {
namespace {

constexpr double ms = 1e6;

// 1 ms per token of a prompt, 1 ms per step.
TaxOfModel measured_tax(double prompt_tokens) {
  TaxOfModel measured;
  measured.result.prefill.typical.token_ns = prompt_tokens * ms;
  measured.result.decode.typical.token_ns = ms;
  return measured;
}

TaxModel tiny_moe(const Workload& workload) {
  return {open_checkpoint(source_dir() + "/engine/models/tiny-moe"), default_options(DeviceKind::cpu),
          workload};
}

TEST(SweepCost, IsThatOfTheFewestRunsWhereTheseTakeLongerThanTheBudget) {
  const TaxModel model = tiny_moe({.name = "chat", .prompt_tokens = 64, .output_tokens = 33});
  TaxOfModel measured = measured_tax(64.0);
  const SweepCost cost = sweep_cost(model, measured, 1.0, 0);
  EXPECT_EQ(cost.points, 10U) << "1 to 32 sequences, 32 to 256 tokens";
  const double sequences = (1 + 2 + 4 + 8 + 16 + 32) * (0.064 + 0.032);
  const double prompts = 0.032 + 0.064 + 0.128 + 0.256 + 4 * 0.032;
  EXPECT_NEAR(cost.seconds, 7.0 * (sequences + prompts), 1e-6);

  measured.load_seconds = 2.0;
  EXPECT_NEAR(sweep_cost(model, measured, 1.0, 0).seconds, 20.0 + 7.0 * (sequences + prompts), 1e-6)
      << "every point loads the weights";
  measured.load_seconds = 0.0;
  EXPECT_NEAR(sweep_cost(model, measured, 600.0, 0).seconds, 1200.0, 1e-6) << "each sweep has the budget";
}

TEST(SweepCost, OfAnAgentIsThatOfItsFirstRounds) {
  const TaxModel model = tiny_moe(
      {.name = "agent", .prompt_tokens = 64, .output_tokens = 9, .rounds = 5, .round_prompt_tokens = 4});
  // 80 tokens of prompts in five rounds.
  const SweepCost cost = sweep_cost(model, measured_tax(80.0 / 5.0), 0.0, 0);
  EXPECT_NEAR(cost.seconds, 7.0 * (63 * (0.064 + 0.008) + 0.480 + 4 * 0.008), 1e-6);
}

}  // namespace
}  // namespace moetune
