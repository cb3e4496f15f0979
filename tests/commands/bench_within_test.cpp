// As many layers of a generated model as can be made in time.
#include "tuner/commands/bench_within.h"

#include <gtest/gtest.h>

#include "engine/option_rules.h"
#include "tests/support/small_presets.h"

namespace moetune {
namespace {

TEST(BenchWithin, AsManyLayersAsThereIsTimeForAndOneAtLeast) {
  EXPECT_EQ(layers_within(10.0, 60.0, 4), 4);
  EXPECT_EQ(layers_within(14.0, 60.0, 4), 3) << "the first one is made again";
  EXPECT_EQ(layers_within(20.0, 60.0, 4), 2);
  EXPECT_EQ(layers_within(59.0, 60.0, 4), 1);
  EXPECT_EQ(layers_within(90.0, 60.0, 4), 1);
  EXPECT_EQ(layers_within(0.0, 60.0, 4), 4);
}

TEST(BenchWithin, OneBudgetIsForMakingAndTiming) {
  EXPECT_DOUBLE_EQ(most_making_seconds(60.0), 45.0);
  for (const double making : {0.0, 10.0, most_making_seconds(60.0)})
    EXPECT_DOUBLE_EQ(making + most_timing_seconds(60.0, making), 60.0);
  EXPECT_DOUBLE_EQ(most_timing_seconds(60.0, 300.0), 15.0) << "one layer takes as long as it takes";
}

TEST(BenchWithin, MakesFewerLayersWhereTimeIsShort) {
  const auto checkpoint = open_checkpoint(testing::small_presets().front());
  const OpBenchSetup setup{.ops = {"moe"}, .tokens = 1, .context = 1, .wanted_layers = 4};
  const BenchWithin short_time = bench_within(checkpoint, default_options(DeviceKind::cpu), setup, 1e-9);
  EXPECT_EQ(short_time.bench->spec().layers, 1);
  EXPECT_TRUE(short_time.has_fewer_layers);
  EXPECT_GT(short_time.seconds, 0.0);
  const BenchWithin enough = bench_within(checkpoint, default_options(DeviceKind::cpu), setup, 600.0);
  EXPECT_EQ(enough.bench->spec().layers, 4);
  EXPECT_FALSE(enough.has_fewer_layers);
}

}  // namespace
}  // namespace moetune
