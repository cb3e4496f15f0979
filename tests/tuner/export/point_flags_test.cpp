#include "tuner/export/point_flags.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/tuner/export/support.h"

namespace moetune {
namespace {

const PointFlags& of(const std::vector<PointFlags>& all, const std::string& server) {
  return *std::ranges::find(all, server, &PointFlags::server);
}

TEST(PointFlags, AreThoseOfThePointAndNameNoModel) {
  const LaunchProfile profile = gpu_profile({{"top_k", "6"}});
  ProfilePoint other = profile.recommended;
  other.trial = 4;
  other.configuration = {{"top_k", "5"}, {"tensor_parallel", "2"}, {"router", "cpu"}};
  const std::vector<PointFlags> flags =
      flags_of_point(profile, other, server_tables(), knob_names(), qwen3());
  ASSERT_EQ(flags.size(), server_tables().size());
  const PointFlags& vllm = of(flags, "vllm");
  EXPECT_EQ(vllm.problem, "");
  EXPECT_TRUE(has_text(vllm.text, R"(--hf-overrides '{"num_experts_per_tok":5}' --tensor-parallel-size 2)"));
  EXPECT_FALSE(has_text(vllm.text, "MODEL"));
  EXPECT_TRUE(has_text(vllm.lost.at(0), "router=cpu: "));
}

TEST(PointFlags, WhatCannotBeSaidIsSaid) {
  const LaunchProfile profile = gpu_profile({{"top_k", "6"}});
  const std::vector<PointFlags> flags =
      flags_of_point(profile, profile.recommended, server_tables(), knob_names(), std::nullopt);
  EXPECT_TRUE(has_text(of(flags, "vllm").problem, "--model: not given"));
  EXPECT_EQ(of(flags, "vllm").text, "");
}

}  // namespace
}  // namespace moetune
