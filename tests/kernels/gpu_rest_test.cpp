// When a card has come to rest: readings are invented, time is counted.
#include "kernels/gpu_rest.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {
using std::chrono::milliseconds;

constexpr milliseconds step(100);
constexpr milliseconds patience(4000);

CardReading reading(double watts, int mhz) { return {.watts = watts, .sm_mhz = mhz, .most_sm_mhz = 1980}; }

// Hands out what was invented, the last one for ever.
std::function<CardReading()> card(std::vector<CardReading> readings) {
  return [readings = std::move(readings), next = std::size_t{0}]() mutable {
    return readings[std::min(next++, readings.size() - 1)];
  };
}

struct Watched {
  std::vector<RestingPower> found;
  milliseconds waited{0};
};
Watched watched(const std::vector<std::function<CardReading()>>& cards) {
  Watched result;
  result.found = power_at_rest(cards, [&](milliseconds time) { result.waited += time; }, step, patience);
  return result;
}

TEST(PowerAtRest, OfACardThatRestsTakesThreeSteps) {
  const Watched at_rest = watched({card({reading(79.0, 345)})});
  EXPECT_EQ(at_rest.found[0].watts, 79.0);
  EXPECT_EQ(at_rest.found[0].problem, "");
  EXPECT_EQ(at_rest.waited, 3 * step);
}

// The figures of an H200 whose last program has just ended: a level while its clocks are up, then the average
// falls.
TEST(PowerAtRest, ALevelAtAHighClockIsNoRest) {
  std::vector<CardReading> readings(12, reading(127.0, 1980));
  for (const double watts : {119.0, 111.0, 103.0, 95.0, 87.0, 79.0}) readings.push_back(reading(watts, 345));
  const Watched after_work = watched({card(readings)});
  EXPECT_EQ(after_work.found[0].watts, 79.0);
  EXPECT_EQ(after_work.waited, 20 * step) << "17 until it is down, 3 until that is believed";
}

TEST(PowerAtRest, ACardThatStaysAwakeHasNone) {
  const Watched awake = watched({card({reading(127.0, 1980)})});
  EXPECT_FALSE(awake.found[0].watts);
  EXPECT_EQ(awake.found[0].problem,
            "the card does not come to rest: it still clocks at 1980 of 1980 MHz and draws 127 W");
  EXPECT_EQ(awake.waited, patience);
  std::vector<CardReading> swinging;
  for (int i = 0; i < 60; ++i) swinging.push_back(reading(i % 2 == 0 ? 79.0 : 90.0, 345));
  EXPECT_EQ(watched({card(swinging)}).found[0].problem,
            "the card does not come to rest: its power still changes, now 79 W");
}

TEST(PowerAtRest, WithoutClocksThePowerDecides) {
  std::vector<CardReading> readings;
  for (const double watts : {456.0, 300.0, 150.0, 79.0})
    readings.push_back({.watts = watts, .sm_mhz = {}, .most_sm_mhz = {}});
  EXPECT_EQ(watched({card(readings)}).found[0].watts, 79.0);
  const Watched silent = watched({card({CardReading{}})});
  EXPECT_EQ(silent.found[0].problem, "the driver does not say what the card draws");
  EXPECT_EQ(silent.waited, milliseconds(0));
}

TEST(PowerAtRest, CardsAreWaitedForSideBySide) {
  std::vector<CardReading> late(10, reading(127.0, 1980));
  late.push_back(reading(80.0, 345));
  const Watched both = watched({card({reading(79.0, 345)}), card(late)});
  EXPECT_EQ(both.found[0].watts, 79.0);
  EXPECT_EQ(both.found[1].watts, 80.0);
  EXPECT_EQ(both.waited, 13 * step);
  EXPECT_TRUE(watched({}).found.empty());
}

}  // namespace
}  // namespace moetune
