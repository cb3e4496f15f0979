#include "tuner/doctor/bus_id.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(BusId, IsOneTextForAllWaysToWriteIt) {
  EXPECT_EQ(short_bus_id("00000000:0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(short_bus_id("0000:0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(short_bus_id("0000:0a:00.0"), "0000:0a:00.0");
  EXPECT_NE(short_bus_id("00000000:0B:00.0"), "0000:0a:00.0");
}

TEST(BusId, ShorterTextsStayWhole) {
  EXPECT_EQ(short_bus_id(""), "");
  EXPECT_EQ(short_bus_id("0A:00.0"), "0a:00.0");
}

}  // namespace
}  // namespace moetune
