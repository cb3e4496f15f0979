#include "tuner/counted.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Counted, OneIsNotSeveral) {
  EXPECT_EQ(counted(1, "trial"), "1 trial");
  EXPECT_EQ(counted(std::size_t{0}, "trial"), "0 trials");
  EXPECT_EQ(counted(std::int64_t{2}, "process", "processes"), "2 processes");
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
}

}  // namespace
}  // namespace moetune
