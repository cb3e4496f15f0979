#include "tuner/named_numbers.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

using Numbers = std::map<std::string, std::uint64_t>;

TEST(NamedNumbers, AreReadFromEveryFormTheKernelWrites) {
  EXPECT_EQ(named_numbers("MemTotal:       1000 kB\nSwapFree:\t60 kB\n"),
            (Numbers{{"MemTotal", 1000}, {"SwapFree", 60}}));
  EXPECT_EQ(named_numbers("oom 3\noom_kill 18446744073709551615"),
            (Numbers{{"oom", 3}, {"oom_kill", 18446744073709551615U}}));
}

TEST(NamedNumbers, OtherLinesAreDroppedAndHideNoneBehindThem) {
  EXPECT_EQ(named_numbers("alone\n\n 5\nwords many\nbelow -1\nlarge 18446744073709551616\nlast 2\n"),
            (Numbers{{"last", 2}}));
  EXPECT_TRUE(named_numbers("").empty());
}

TEST(NamedNumbers, OneOfAFile) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "cpu.stat") << "nr_periods 4\nnr_throttled 2\n";
  EXPECT_EQ(number_named("nr_throttled", folder / "cpu.stat"), 2U);
  EXPECT_EQ(named_numbers_in(folder / "cpu.stat"), (Numbers{{"nr_periods", 4}, {"nr_throttled", 2}}));
  EXPECT_TRUE(named_numbers_in(folder / "none").empty());
  EXPECT_FALSE(number_named("throttled", folder / "cpu.stat"));
  EXPECT_FALSE(number_named("nr_throttled", folder / "none"));
}

}  // namespace
}  // namespace moetune
