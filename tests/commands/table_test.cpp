// Tables for terminals of 80 columns.
#include "tuner/commands/table.h"

#include <sstream>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Table, ColumnsLineUpAndNumbersStandRight) {
  const Table table{.headings = {"metric", "value"},
                    .alignment = {Align::left, Align::right},
                    .rows = {{"tpot_ms", "0.41"}, {"device_bytes", "13.2 MiB"}}};
  EXPECT_EQ(table.text(),
            "metric           value\n"
            "tpot_ms           0.41\n"
            "device_bytes  13.2 MiB");
}

TEST(Table, WideCharactersCountAsTheyShow) {
  const Table table{.headings = {}, .alignment = {}, .rows = {{"\xC3\xA9", "a"}, {"ee", "b"}}};
  EXPECT_EQ(table.text(), "\xC3\xA9   a\nee  b");
}

TEST(Table, LongLastColumnGoesOnBelowItself) {
  const Table table{
      .headings = {},
      .alignment = {},
      .rows = {{"knob", std::string("word ") + std::string(60, 'x') + " and many more words here"}}};
  std::istringstream lines(table.text(80));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 80U);
    if (count++ > 0) {
      EXPECT_TRUE(line.starts_with("      "));
    }
  }
  EXPECT_EQ(count, 2);
}

TEST(Table, NoLineEndsInBlanks) {
  const Table table{.headings = {"a", "b"}, .alignment = {}, .rows = {{"x", ""}}};
  EXPECT_EQ(table.text(), "a  b\nx");
}

}  // namespace
}  // namespace moetune
