#include "engine/sync_tax/device_cost.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(DeviceRecordingCost, IsWhatChainsOfThatLengthTakeMore) {
  const DeviceRecordingCost cost =
      device_recording_cost({.kernel_ns = {500.0, 2'450.0, 8'000.0}, .launch_call_ns = 1'600.0},
                            {.kernel_ns = {660.0, 2'500.0, 7'990.0}, .launch_call_ns = 250'000.0});
  EXPECT_EQ(cost.launch_call_ns, 1'600.0);
  EXPECT_EQ(cost.added_to(660), 160);
  EXPECT_EQ(cost.added_to(500), 160);
  // All longer chains together, the longest with a tenth of the weight: (50 - 10 / 10.2) / (1 + 1 / 10.2).
  EXPECT_EQ(cost.added_to(2'500), 45);
  EXPECT_EQ(cost.added_to(7'990), 45);
  EXPECT_EQ(cost.added_to(1'000'000), 45);
  EXPECT_EQ(cost.added_to(1'580), 102);  // half-way from one to the other
  EXPECT_EQ(cost.added_to(100), 50);     // no more than half of it
  EXPECT_EQ(cost.added_to(0), 0);
}

TEST(DeviceRecordingCost, IsNothingWhereRecordingMadeChainsShorter) {
  const DeviceRecordingCost cost =
      device_recording_cost({.kernel_ns = {500.0, 1'000.0, 2'000.0}, .launch_call_ns = 1.0},
                            {.kernel_ns = {490.0, 995.0, 1'990.0}, .launch_call_ns = 1.0});
  EXPECT_EQ(cost.added_to(490), 0);
  EXPECT_EQ(cost.added_to(2'000), 0);
}

TEST(DeviceRecordingCost, IsNothingWhereNothingIsKnown) {
  EXPECT_EQ(DeviceRecordingCost{}.added_to(1'000), 0);
  EXPECT_THROW(device_recording_cost({.kernel_ns = {1.0}, .launch_call_ns = 1.0}, {}), std::logic_error);
}

}  // namespace
}  // namespace moetune
