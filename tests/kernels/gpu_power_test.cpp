// Energy and power through NVML, against a library that stands in for it (support/fake_nvml.cpp).
#include "kernels/gpu_power.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/beside_program.h"

namespace moetune {
namespace {

std::string fake() { return beside_program("libfake_nvml.so"); }

TEST(GpuPower, ReadsEnergyPowerAndDriver) {
  const GpuPower power("0000:01:00.0", fake());
  ASSERT_EQ(power.problem(), "");
  EXPECT_EQ(power.driver_version(), "580.95.05");
  EXPECT_EQ(power.watts(), 75.5);
  EXPECT_EQ(power.limit_watts(), 700.0);
  const auto before = power.joules();
  const auto after = power.joules();
  ASSERT_TRUE(before && after);
  EXPECT_EQ(*after - *before, 0.5);
}

TEST(GpuPower, CountsForHowLongItWasSlowedByHeat) {
  const GpuPower power("0000:01:00.0", fake());
  const auto before = power.slowed_by_heat_ns();
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(*power.slowed_by_heat_ns() - *before, 250);
  EXPECT_FALSE(GpuPower("0000:02:00.0", fake()).slowed_by_heat_ns()) << "a driver that does not say";
}

TEST(GpuPower, SaysThatThereIsNoEnergyCounter) {
  const GpuPower power("0000:02:00.0", fake());
  EXPECT_EQ(power.problem(), "the GPU has no energy counter: Not Supported");
  EXPECT_FALSE(power.joules());
  EXPECT_FALSE(power.limit_watts());
  EXPECT_EQ(power.watts(), 75.5);
}

TEST(GpuPower, LooksAtPowerAndClocks) {
  const CardReading at_rest = GpuPower("0000:01:00.0", fake()).look();
  EXPECT_EQ(at_rest.watts, 75.5);
  EXPECT_EQ(at_rest.sm_mhz, 345);
  EXPECT_EQ(at_rest.most_sm_mhz, 1980);
  EXPECT_FALSE(GpuPower("0000:02:00.0", fake()).look().sm_mhz) << "a driver that does not say";
  EXPECT_FALSE(GpuPower("0000:03:00.0", fake()).look().watts) << "no such card";
}

TEST(GpuPower, ACardThatWorkedIsWaitedFor) {
  const GpuPower cooling("0000:05:00.0", fake());
  const std::vector<std::function<CardReading()>> cards{[&] { return cooling.look(); }};
  EXPECT_EQ(cooling.watts(), 456.0);
  int steps = 0;
  const auto found = power_at_rest(
      cards, [&](auto) { ++steps; }, std::chrono::milliseconds(1), std::chrono::milliseconds(1000));
  EXPECT_EQ(found[0].watts, 75.5);
  EXPECT_GT(steps, 5);
}

// A part of a card would be charged with what the others use.
TEST(GpuPower, DoesNotCountForADividedGpu) {
  const GpuPower power("0000:04:00.0", fake());
  EXPECT_NE(power.problem().find("the GPU is divided (MIG)"), std::string::npos) << power.problem();
  EXPECT_FALSE(power.joules());
}

TEST(GpuPower, SaysThatTheGpuIsNotKnown) {
  const GpuPower power("0000:03:00.0", fake());
  EXPECT_EQ(power.problem(), "NVML does not know GPU 0000:03:00.0: Not Found");
  EXPECT_FALSE(power.joules());
  EXPECT_FALSE(power.watts());
}

TEST(GpuPower, SaysThatThereIsNoLibrary) {
  const GpuPower power("0000:01:00.0", "libnvidia-ml-that-is-not-there.so.1");
  EXPECT_NE(power.problem().find("libnvidia-ml-that-is-not-there.so.1"), std::string::npos)
      << power.problem();
  EXPECT_FALSE(power.joules());
  EXPECT_FALSE(power.watts());
}

// libm is a library, but not NVML.
TEST(GpuPower, SaysThatTheLibraryIsAnother) {
  const GpuPower power("0000:01:00.0", "libm.so.6");
  EXPECT_NE(power.problem().find("nvmlInit_v2"), std::string::npos) << power.problem();
}

TEST(GpuPower, CanBeMoved) {
  GpuPower power("0000:02:00.0", fake());
  power = GpuPower("0000:01:00.0", fake());  // shuts the old one down, the new one stays open
  const GpuPower moved = std::move(power);
  EXPECT_TRUE(moved.joules());
}

}  // namespace
}  // namespace moetune
