// An op that was timed less than was asked for is named, with how often.
#include "tuner/commands/cut_short_ops.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

OpTiming timed(const std::string& op, std::int64_t tokens, std::size_t runs) {
  OpTiming timing;
  timing.op = op;
  timing.tokens = tokens;
  timing.first_seconds = 34.21;
  timing.microseconds.assign(runs, 1.0);
  return timing;
}

TEST(CutShortOps, NothingIsSaidOfWhatWasTimedInFull) {
  CutShortOps ops;
  ops.add(timed("moe", 1, 25), 25);
  EXPECT_TRUE(ops.notes(25, 60.0).empty());
  EXPECT_FALSE(ops.all_untimed(1));
}

TEST(CutShortOps, NamesWhatWasTimedLessAndWhatNotAtAll) {
  CutShortOps ops;
  ops.add(timed("head", 1, 24), 25);
  ops.add(timed("head", 32, 1), 25);
  ops.add(timed("moe", 4096, 0), 25);
  EXPECT_EQ(
      ops.notes(25, 60.0),
      (std::vector<std::string>{
          "Timed fewer times than --runs 25, as --budget of 60 s was spent: head at 1 token 24 times, head "
          "at 32 tokens 1 time. Below 6 times there is no interval.",
          "Not timed, as --budget of 60 s does not reach: moe at 4096 tokens. A larger one helps, or fewer "
          "--tokens."}));
  EXPECT_EQ(ops.first_untimed(), "one run of moe at 4096 tokens takes 34.2 s");
}

}  // namespace
}  // namespace moetune
