// What a program printed, and how its failure is told.
#include "tuner/child_output.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {
using namespace std::chrono_literals;

ChildOutput shell(const std::string& script, std::chrono::seconds at_most = 60s) {
  return output_of({"/bin/sh", "-c", script}, at_most);
}

TEST(ChildOutput, IsWhatWasPrinted) {
  const ChildOutput output = shell("echo one; echo two; echo unseen >&2");
  EXPECT_EQ(output.text, "one\ntwo\n");
  EXPECT_EQ(output.problem, "");
}

TEST(ChildOutput, TellsHowItFailed) {
  EXPECT_EQ(shell("echo half; exit 3").problem, "ended with exit status 3");
  EXPECT_EQ(shell("kill -SEGV $$").problem, "was killed by SIGSEGV");
  EXPECT_EQ(shell("exec tail -f /dev/null", 1s).problem, "gave no answer within 1 s");
  EXPECT_EQ(shell("exec yes").problem, "printed more than a megabyte");
}

TEST(ChildOutput, StdinIsEmpty) { EXPECT_EQ(shell("cat; echo end").text, "end\n"); }

TEST(ChildOutput, AProgramThatIsNotThereIsAnError) {
  EXPECT_TRUE(has_text(message_of<std::runtime_error>([] { output_of({"/no/such/program"}, 1s); }),
                       "/no/such/program cannot be started"));
}

}  // namespace
}  // namespace moetune
