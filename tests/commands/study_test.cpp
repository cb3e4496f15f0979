// What is recommended must fit as it will be launched, not only as it was folded to be measured.
#include "tuner/commands/study.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/engine.h"

#include "tests/support/message_of.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"

namespace moetune {
namespace {

Study folded_study(double gib) {
  Study study;
  study.model = open_checkpoint("qwen3-30b-a3b:fold=4")->spec();
  study.workload = {.name = "w", .prompt_tokens = 64, .output_tokens = 16};
  study.hardware.device_bytes = static_cast<std::int64_t>(gib * static_cast<double>(std::int64_t{1} << 30));
  study.objection = [](const Configuration&) -> std::optional<std::string> { return std::nullopt; };
  study.kind_of_objection = study.objection;
  return study;
}

Configuration with_cache(const std::string& share) {
  return {.values = {{"expert_cache", share}, {"top_k", "8"}}};
}

SearchSpace cache_space() {
  SearchSpace space;
  space.name = "cache";
  space.parameters = {{"expert_cache", Parameter::Kind::ordinal, {"0.25", "1"}, {}, ""}};
  return space;
}

// 57 GiB of weights, folded to a quarter.
TEST(StudyForLaunch, LeavesOutWhatFitsOnlyFolded) {
  const Study measured = folded_study(24.0);
  EXPECT_FALSE(measured.objection(with_cache("1")));
  EXPECT_EQ(default_configuration(measured, cache_space()).values.at("expert_cache"), "1");

  const Study launched = for_launch(measured);
  ASSERT_TRUE(launched.objection(with_cache("1")));
  EXPECT_TRUE(has_text(*launched.objection(with_cache("1")), "the model itself, not folded, would take"));
  EXPECT_EQ(launched.kind_of_objection(with_cache("1")), "does not fit without folding");
  EXPECT_FALSE(launched.objection(with_cache("0.25")));
  const double share = std::stod(default_configuration(launched, cache_space()).values.at("expert_cache"));
  EXPECT_GT(share, 0.25);
  EXPECT_LT(share, 0.45);
  EXPECT_TRUE(has_text(launched.remarks.back(), "folded x4 to be measured"));
}

TEST(StudyForLaunch, ChangesNothingWhereAllFits) {
  const Study launched = for_launch(folded_study(140.0));
  EXPECT_FALSE(launched.objection(with_cache("1")));
  EXPECT_EQ(default_configuration(launched, cache_space()).values.at("expert_cache"), "1");
}

}  // namespace
}  // namespace moetune
