#include "tuner/commands/side_by_side.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

TEST(SideBySide, KnobsAreCutBehindTheirSignAndNothingIsWiderThanAsked) {
  const std::vector<std::string> headings{"a", "b", "c", "d"};
  const std::string knobs = "expert_quant=checkpoint tensor_parallel=1 " + std::string(40, 'x');
  const std::string text = side_by_side(headings, {{"configuration", {knobs, knobs, knobs, knobs}}}, 80);
  EXPECT_TRUE(has_text(text, " expert_quant="));
  EXPECT_TRUE(has_text(text, " checkpoint"));
  EXPECT_TRUE(has_text(text, " tensor_parallel="));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(character_count(line), 80U) << line;
}

}  // namespace
}  // namespace moetune
