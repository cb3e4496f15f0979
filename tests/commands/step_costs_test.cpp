#include "tuner/commands/step_costs.h"

#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

StepMisses asks(double misses, double layers) {
  return {.layers = 48.0, .missing_layers = layers, .misses = misses};
}

MeasuredSize size(double misses, double layers, const StepCosts& costs, double noise_ms = 0.0) {
  const StepMisses asked = asks(misses, layers);
  return {asked, costs.of(asked) + noise_ms};
}

void expect_near(const StepCosts& found, const StepCosts& costs) {
  EXPECT_NEAR(found.lookup_ms, costs.lookup_ms, 1e-9);
  EXPECT_NEAR(found.miss_ms, costs.miss_ms, 1e-9);
  EXPECT_NEAR(found.missing_layer_ms, costs.missing_layer_ms, 1e-9);
}

TEST(StepCosts, AreFoundAgain) {
  for (const StepCosts& costs :
       {StepCosts{0.4, 0.05, 0.01}, StepCosts{0.0, 0.05, 0.01}, StepCosts{0.4, 0.05, 0.0},
        StepCosts{0.0, 0.0, 0.03}, StepCosts{0.2, 0.0, 0.0}, StepCosts{}})
    expect_near(fit_step_costs(std::vector{size(218, 47, costs), size(60, 30, costs), size(6, 6, costs)}),
                costs);
}

// Without the constant a model as of a GPU, where every layer looks up, would blame the few misses of a large
// cache for it, and foresee too much for the sizes in between.
TEST(StepCosts, ALookupIsNoMiss) {
  const StepCosts costs{.lookup_ms = 0.36, .miss_ms = 0.051, .missing_layer_ms = 0.0};
  const std::vector<MeasuredSize> sizes = {size(218, 47, costs, 0.02), size(90, 40, costs, -0.03),
                                           size(6.6, 6, costs, 0.01)};
  const StepCosts found = fit_step_costs(sizes);
  const StepMisses between = asks(33.7, 22);
  EXPECT_NEAR(found.of(between), costs.of(between), 0.1 * costs.of(between));
}

TEST(StepCosts, AreNeverBelowZero) {
  // More misses, and faster: nothing explains that.
  const std::vector<MeasuredSize> sizes = {{asks(100, 40), 0.1}, {asks(50, 30), 0.4}, {asks(5, 4), 0.9}};
  const StepCosts found = fit_step_costs(sizes);
  EXPECT_GE(found.miss_ms, 0.0);
  EXPECT_GE(found.missing_layer_ms, 0.0);
  EXPECT_NEAR(found.lookup_ms, 1.4 / 3, 1e-9);
  const StepCosts faster = fit_step_costs(std::vector<MeasuredSize>{{asks(9, 5), -0.2}, {asks(2, 2), -0.1}});
  EXPECT_EQ(faster.of(asks(9, 5)), 0.0);
}

TEST(StepCosts, OfOneSizeAreItsOwn) {
  const StepCosts found = fit_step_costs(std::vector<MeasuredSize>{{asks(4, 2), 0.8}});
  EXPECT_NEAR(found.of(asks(4, 2)), 0.8, 1e-9);
  EXPECT_EQ(fit_step_costs({}).of(asks(4, 2)), 0.0);
}

}  // namespace
}  // namespace moetune
