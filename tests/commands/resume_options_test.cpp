#include "tuner/commands/resume_options.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(ResumeOption, IsTheOneThatTheFieldFollowsFrom) {
  EXPECT_EQ(resume_option("seed"), "--seed");
  EXPECT_EQ(resume_option("objectives"), "--objective");
  EXPECT_EQ(resume_option("space_hash"), "--space");
  EXPECT_EQ(resume_option("conditions.latency_seconds"), "--timing");
  EXPECT_EQ(resume_option("conditions.device_memory_bytes"), "--device-memory");
  EXPECT_EQ(resume_option("conditions.calibration_hash"), "--calibration");
  EXPECT_EQ(resume_option("gpu_count"), "--gpus") << "of hardware.json";
}

TEST(ResumeOption, PartsOfAnObjectHaveThatOfTheObjectOrTheirOwn) {
  EXPECT_EQ(resume_option("conditions.workload"), "--workload");
  EXPECT_EQ(resume_option("conditions.workload.prompt_tokens"), "--workload");
  EXPECT_EQ(resume_option("conditions.workload.slo"), "--slo");
  EXPECT_EQ(resume_option("conditions.workload.slo.limit_ms"), "--slo");
  EXPECT_EQ(resume_option("conditions.workload_cut"), "");
}

TEST(ResumeOption, IsEmptyWhereNoOptionDecidesAlone) {
  EXPECT_EQ(resume_option("default_configuration.top_k"), "");
  EXPECT_EQ(resume_option("cpu_name"), "");
  EXPECT_EQ(resume_option(""), "");
}

}  // namespace
}  // namespace moetune
