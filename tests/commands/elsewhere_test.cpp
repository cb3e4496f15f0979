#include "tuner/commands/elsewhere.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

LaunchProfile of_gpu() {
  LaunchProfile profile;
  profile.hardware.device = "NVIDIA H200";
  profile.hardware.gpu_count = 1;
  profile.hardware.compute_capability = "9.0";
  profile.hardware.cpu_name = "Example 9000";
  profile.hardware.cpu_cores = 16;
  profile.hardware.simd = "AVX3";
  profile.hardware.driver = "580.1 (CUDA 13.0)";
  profile.hardware.memory_gb_per_s = 4470.0;
  profile.hardware.build = "0.1.0 a";
  return profile;
}

GpusSeen seen(const std::string& name, int count) {
  GpusSeen gpus;
  gpus.gpus.resize(static_cast<std::size_t>(count));
  for (GpuHealth& gpu : gpus.gpus) gpu.name = name;
  gpus.driver_version = "580.1";
  gpus.driver_cuda = "13.0";
  return gpus;
}

TEST(Elsewhere, SaysWhichRungMatchedAndWhatThatIsWorth) {
  const LaunchProfile profile = of_gpu();
  HardwareFingerprint host = profile.hardware;
  host.build = "0.2.0 b";
  EXPECT_EQ(elsewhere_words(profile, host, seen("NVIDIA H200", 1)), "")
      << "rates and build are not asked for";
  const std::string other = elsewhere_words(profile, host, seen("NVIDIA H100", 1));
  EXPECT_TRUE(has_text(other, "Other device (device NVIDIA H200 then, NVIDIA H100 now)")) << other;
  EXPECT_TRUE(has_text(other, "no more than a first guess")) << other;
  EXPECT_EQ(elsewhere_words(profile, host, seen("NVIDIA H200", 8)), "")
      << "one of eight may be all it was given";
  LaunchProfile of_two = profile;
  of_two.hardware.gpu_count = 2;
  EXPECT_TRUE(has_text(elsewhere_words(of_two, host, seen("NVIDIA H200", 1)),
                       "Other size (gpu_count 2 then, 1 now)"));
  EXPECT_TRUE(has_text(elsewhere_words(profile, host, {}), "device NVIDIA H200 then, no GPU now"));
  GpusSeen updated = seen("NVIDIA H200", 1);
  updated.driver_version = "590.2";
  EXPECT_TRUE(has_text(elsewhere_words(profile, host, updated),
                       "Other software (driver 580.1 (CUDA 13.0) then, 590.2"));
}

TEST(Elsewhere, AProfileOfAProcessorIsComparedByItsProcessor) {
  LaunchProfile profile = of_gpu();
  profile.hardware.device = "cpu";
  profile.hardware.gpu_count = 0;
  HardwareFingerprint host = profile.hardware;
  EXPECT_EQ(elsewhere_words(profile, host, seen("NVIDIA H200", 1)), "");
  host.cpu_name = "Another 1";
  EXPECT_TRUE(has_text(elsewhere_words(profile, host, {}),
                       "Other device (cpu_name Example 9000 then, Another 1 now)"));
}

}  // namespace
}  // namespace moetune
