// Sizes are written in the unit that a person would choose.
#include "engine/facts/size_text.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(SizeText, ChoosesTheUnit) {
  EXPECT_EQ(size_text(641463.3 * 1048576.0), "626 GiB");
  EXPECT_EQ(size_text(9.0 * 1048576.0), "9.00 MiB");
  EXPECT_EQ(size_text(20480.0), "20.0 KiB");
  EXPECT_EQ(size_text(512.0), "512 bytes");
  EXPECT_EQ(size_text(std::int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(size_text(-2048.0), "-2.00 KiB");
  EXPECT_EQ(size_text(0.0), "0 bytes");
}

// Whatever is about one of a unit is one of it, on both sides.
TEST(SizeText, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(size_text(1023.9 * 1048576.0), "1.00 GiB");
  EXPECT_EQ(size_text(1023.5 * 1048576.0), "1.00 GiB");
  EXPECT_EQ(size_text(1023.4 * 1048576.0), "1023 MiB");
  EXPECT_EQ(size_text(1024.0 * 1048576.0), "1.00 GiB");
  EXPECT_EQ(size_text(1023.9 * 1024.0), "1.00 MiB");
  EXPECT_EQ(size_text(1023.0), "1023 bytes");
}

TEST(SizeText, ThreeDigits) {
  EXPECT_EQ(three_digits(1342.4), "1342");
  EXPECT_EQ(three_digits(13.17), "13.2");
  EXPECT_EQ(three_digits(-0.41234), "-0.412");
  EXPECT_EQ(three_digits(0.0000123), "1.23e-05");
}

}  // namespace
}  // namespace moetune
