// Every command that measures has the same words for who ran beside it.
#include "tuner/commands/disturbances.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

using Lines = std::vector<std::string>;

TEST(Disturbances, NothingSeenIsNothingSaid) {
  EXPECT_EQ(lines_about({}), Lines());
  nlohmann::json document;
  add_to(document, {});
  EXPECT_EQ(document, nlohmann::json({{"other_work", Lines()}, {"arisen", Lines()}}));
}

TEST(Disturbances, AreNamedInWordsAndInTheDocument) {
  const Disturbances seen{.on_processors = {"cc1plus (process 7, 0.90 cores)", "ld (process 8, 0.50 cores)"},
                          .on_gpu = {"python (process 9, 2.0 GiB)"},
                          .arisen = {"the GPU is held down"}};
  EXPECT_EQ(lines_about(seen),
            (Lines{"moetune: other work ran beside it: cc1plus (process 7, 0.90 cores), ld (process 8, 0.50 "
                   "cores). The times are not this machine's alone",
                   "moetune: python (process 9, 2.0 GiB) came while it was measured",
                   "moetune: while it was measured this arose: the GPU is held down"}));
  EXPECT_EQ(
      lines_about({.on_processors = {"ld"}, .on_gpu = {}, .arisen = {"heat"}}, "ratios hold",
                  "indeterminate: "),
      (Lines{"moetune: other work ran beside it: ld. The times are not this machine's alone; ratios hold",
             "moetune: indeterminate: while it was measured this arose: heat"}));
  nlohmann::json document;
  add_to(document, seen);
  EXPECT_EQ(document["other_work"].size(), 3U);
  EXPECT_EQ(document["arisen"], Lines{"the GPU is held down"});
  EXPECT_EQ(seen.all().size(), 4U);
}

}  // namespace
}  // namespace moetune
