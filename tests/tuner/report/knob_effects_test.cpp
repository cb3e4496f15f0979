#include "tuner/report/knob_effects.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

Trial timed(std::int64_t number, Configuration configuration, double tpot_ms) {
  Trial trial;
  trial.number = number;
  trial.configuration = std::move(configuration);
  trial.metrics["tpot_ms"].value = tpot_ms;
  return trial;
}

RunReport run_of(std::vector<Trial> trials) {
  RunReport report;
  report.objectives = objectives_named("tpot_ms");
  report.trials = std::move(trials);
  return report;
}

const Configuration usual{{{"cache", "1"}, {"router", "gpu"}}};
const Configuration on_cpu{{{"cache", "1"}, {"router", "cpu"}}};
const Configuration half{{{"cache", "0.5"}, {"router", "gpu"}}};
const Configuration half_on_cpu{{{"cache", "0.5"}, {"router", "cpu"}}};

// What the router on the processor costs, in milliseconds, whatever else is set.
TEST(KnobEffects, AreOfPairsThatDifferInNothingElse) {
  const auto effects = knob_effects(run_of(
      {timed(0, usual, 2.0), timed(1, half_on_cpu, 14.0), timed(2, half, 9.0), timed(3, on_cpu, 6.0)}));
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(effects[0].knob, "cache");
  EXPECT_EQ(effects[0].value, "0.5");
  EXPECT_EQ(effects[0].pairs, 2U);
  EXPECT_DOUBLE_EQ(effects[0].change, (7.0 + 8.0) / 2.0);
  EXPECT_EQ(effects[1].knob, "router");
  EXPECT_EQ(effects[1].value, "cpu");
  EXPECT_EQ(effects[1].usual, "gpu");
  EXPECT_DOUBLE_EQ(effects[1].usual_median, 5.5);
  EXPECT_DOUBLE_EQ(effects[1].change, 4.5);
  EXPECT_DOUBLE_EQ(effects[1].least, 4.0);
  EXPECT_DOUBLE_EQ(effects[1].most, 5.0);
  EXPECT_DOUBLE_EQ(effects[1].ratio, (3.0 + 14.0 / 9.0) / 2.0);
}

TEST(KnobEffects, NeedTheDefaultsValueBesideTheirs) {
  Trial failed = timed(2, on_cpu, 6.0);
  failed.outcome = Outcome::out_of_memory;
  EXPECT_TRUE(knob_effects(run_of({timed(0, usual, 2.0), timed(1, half_on_cpu, 14.0), failed})).empty());
  EXPECT_EQ(knob_effects_section(run_of({timed(0, usual, 2.0)})), "");
  EXPECT_TRUE(knob_effects(run_of({})).empty());
}

TEST(KnobEffects, AreSaidInTheMetricAndAsAShare) {
  const std::string text = knob_effects_section(run_of({timed(0, usual, 2.0), timed(1, on_cpu, 1.5)}));
  EXPECT_TRUE(has_text(text, "tpot_ms (ms per token)")) << text;
  EXPECT_TRUE(has_text(text, "| `router=cpu` | `gpu` | 1 | 2.00 | -0.500 |  | -25.0 % |")) << text;
}

}  // namespace
}  // namespace moetune
