#include "tuner/printable.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

TEST(Printable, KeepsWhatIsText) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("plain ~ text"), "plain ~ text");
  EXPECT_EQ(printable("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x99\x82"), "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x99\x82");
}

TEST(Printable, NothingCanMoveTheCursorOrTurnTheLine) {
  EXPECT_EQ(printable("a\nb\tc\r"), "a b c ");
  EXPECT_EQ(printable("\x1b[31mred\x07"), " [31mred ");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "  ");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J"),
            " 2J")
      << "the one-byte escape of C1";
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "evil"),
            " evil")
      << "right-to-left override";
}

TEST(Printable, InvalidBytesAreMarked) {
  EXPECT_EQ(printable("\xff\xfe"), "??");
  EXPECT_EQ(printable("\xC3"), "?") << "cut off";
  EXPECT_EQ(printable("\xE2\x82"), "??");
  EXPECT_EQ(printable("\xC0\x80"), "??") << "overlong zero";
  EXPECT_EQ(printable("\xED\xA0\x80"), "???") << "surrogate";
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????") << "above U+10FFFF";
}

TEST(Printable, EveryPairOfBytesBecomesValidUtf8) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second)};
      EXPECT_NO_THROW(static_cast<void>(nlohmann::json(printable(bytes)).dump())) << first << " " << second;
    }
  }
}

TEST(PrintableLines, KeepLineEndsAndNothingElse) {
  EXPECT_EQ(printable_lines("a\x1B[31m\nb\tc\n"), "a [31m\nb c\n");
  EXPECT_EQ(printable_lines("\n\n"), "\n\n");
  EXPECT_EQ(printable_lines(""), "");
}

TEST(Fitted, NeverExceedsTheColumns) {
  const std::string text = "\xC3\xA4\xC3\xB6\xC3\xBC 12345";
  EXPECT_EQ(fitted(text, 9), text);
  EXPECT_EQ(fitted(text, 8), "\xC3\xA4\xC3\xB6\xC3\xBC 1...");
  EXPECT_EQ(fitted(text, 4), "\xC3\xA4...");
  EXPECT_EQ(fitted(text, 2), "..");
  EXPECT_EQ(fitted(text, 0), "");
  for (std::size_t columns = 0; columns < 12; ++columns)
    EXPECT_LE(character_count(fitted(text, columns)), columns);
}

}  // namespace
}  // namespace moetune
