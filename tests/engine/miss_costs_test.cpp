// The cost model of a miss: its arithmetic, and that what it measures are the layers it says.
#include "engine/miss_costs.h"

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "kernels/buffer.h"

namespace moetune {
namespace {

TEST(MissCosts, AStepPaysPerLayerPerMissingLayerAndPerMiss) {
  const MissCosts::Way way{.layer_us = 10.0, .missing_layer_us = 3.0, .miss_us = 200.0};
  EXPECT_DOUBLE_EQ(way.us(0), 10.0);
  EXPECT_DOUBLE_EQ(way.us(2), 413.0);
  EXPECT_DOUBLE_EQ(exposed_ms(way, {.layers = 48, .missing_layers = 4, .misses = 5}), 0.48 + 0.012 + 1.0);
  EXPECT_DOUBLE_EQ(exposed_ms(way, {}), 0.0);
}

// As on an H200 with experts of 352 MB: the processor computes one in 3 ms, the copy of one takes 6.4.
TEST(MissCosts, ALayerThatMissesTakesAsLongAsWhatIsCopiedBeside) {
  const MissCosts::Way cpu{
      .layer_us = 10.0, .missing_layer_us = 0.0, .miss_us = 3'000.0, .beside_us = 6'400.0};
  EXPECT_DOUBLE_EQ(cpu.us(0), 10.0);
  EXPECT_DOUBLE_EQ(cpu.us(1), 6'410.0);
  EXPECT_DOUBLE_EQ(cpu.us(3), 9'010.0) << "then the processor is what takes longer";
  EXPECT_DOUBLE_EQ(exposed_ms(cpu, {.layers = 32, .missing_layers = 8, .misses = 9}), 0.32 + 8 * 6.4);
  EXPECT_DOUBLE_EQ(exposed_ms(cpu, {.layers = 32, .missing_layers = 8, .misses = 24}), 0.32 + 24 * 3.0);
}

TEST(MissCosts, CrossWhereTheDearerQuestionIsPaidBack) {
  const MissCosts::Way asks{.layer_us = 15.0, .missing_layer_us = 0.0, .miss_us = 180.0};
  const MissCosts::Way looks_up{.layer_us = 5.0, .missing_layer_us = 0.0, .miss_us = 187.0};
  EXPECT_EQ(cheaper_from(asks, looks_up, 8), 2) << "10 us of question, 7 us of each miss";
  EXPECT_EQ(cheaper_from(looks_up, asks, 8), std::nullopt) << "with eight missing it is the dearer one";
  EXPECT_EQ(cheaper_from(looks_up, asks, 1), 0);
  EXPECT_EQ(cheaper_from(asks, asks, 8), std::nullopt);
}

TEST(MissCosts, TheCheapestWayHangsOnHowManyAreMissing) {
  const MissCosts costs{.dma = {.layer_us = 15.0, .missing_layer_us = 0.0, .miss_us = 180.0},
                        .pull = {.layer_us = 5.0, .missing_layer_us = 0.0, .miss_us = 187.0},
                        .cpu = {.layer_us = 15.0, .missing_layer_us = 200.0, .miss_us = 90.0}};
  EXPECT_EQ(cheapest_of(costs, 0), MissHandling::pull);
  EXPECT_EQ(cheapest_of(costs, 1), MissHandling::pull) << "192 us for 195 and 305";
  EXPECT_EQ(cheapest_of(costs, 2), MissHandling::dma) << "375 us for 379 and 395";
  EXPECT_EQ(cheapest_of(costs, 3), MissHandling::cpu) << "485 us for 555 and 566";
}

// On a CPU the same ops run: nothing is asked of the times but that there are some.
TEST(MissCosts, AreMeasuredForEveryWay) {
  const ExpertLayout layout = ExpertLayout::of(NumberType::bf16, 64, 32);
  Device device = Cpu(1);
  Cpu host(1);
  const SharedBuffer store(device, 5 * layout.bytes);
  const MissCosts costs = measure_miss_costs(
      device, host, {.layout = layout, .host_layout = layout, .k = 2, .store = store.data(), .blocks = 5});
  EXPECT_EQ(costs.expert_bytes, layout.bytes);
  for (const MissHandling way : {MissHandling::dma, MissHandling::pull, MissHandling::cpu}) {
    EXPECT_TRUE(std::isfinite(costs.of(way).us(1)));
    EXPECT_GE(costs.of(way).us(1), 0.0);
  }
  EXPECT_EQ(costs.cpu.beside_us, costs.dma.miss_us);
  EXPECT_EQ(costs.dma.beside_us, 0.0);
  EXPECT_THROW(
      measure_miss_costs(device, host,
                         {.layout = layout, .host_layout = layout, .store = store.data(), .blocks = 1}),
      std::invalid_argument);
}

}  // namespace
}  // namespace moetune
