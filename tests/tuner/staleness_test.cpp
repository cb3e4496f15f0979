// Each field of the fingerprint puts a profile on its rung, and the worst one decides.
#include "tuner/staleness.h"

#include <functional>

#include <gtest/gtest.h>

namespace moetune {
namespace {

LaunchProfile profile_of_gpu() {
  LaunchProfile profile;
  profile.model_hash = "0123abcd";
  HardwareFingerprint& box = profile.hardware;
  box.device = "NVIDIA H200";
  box.gpu_count = 1;
  box.device_bytes = std::int64_t{139} << 30;
  box.cpu_name = "Xeon";
  box.cpu_cores = 16;
  box.simd = "AVX3_DL";
  box.interconnect = "none";
  box.driver = "570.86 (CUDA 12.8)";
  box.cuda = "12.8";
  box.compute_capability = "9.0";
  box.power_limit_watts = 700.0;
  box.os = "Linux 6.8";
  box.memory_gb_per_s = 4000.0;
  box.link_gb_per_s = 50.0;
  box.build = "0.1.0 abc";
  return profile;
}

PresentBox same_box(const LaunchProfile& profile) {
  return {.hardware = profile.hardware, .model_hash = profile.model_hash};
}

TEST(Staleness, NothingDiffersOnTheSameBox) {
  const LaunchProfile profile = profile_of_gpu();
  PresentBox here = same_box(profile);
  here.hardware.memory_gb_per_s = 3700.0;  // measured anew
  here.hardware.idle_watts = 80.0;
  here.hardware.device_bytes -= here.hardware.device_bytes / 50;  // 2 % less is free
  const Staleness staleness = staleness_of(profile, here);
  EXPECT_EQ(staleness.rung, Rung::same_box);
  EXPECT_TRUE(staleness.differences.empty());
  EXPECT_EQ(staleness.words(), "Same box: choice and numbers hold as they were measured.");
}

// A probe whose own repeats lay that far apart says nothing about the box; a steady one does.
TEST(Staleness, ARateWithinTheNoiseOfItsRepeatsIsNoDifference) {
  LaunchProfile profile = profile_of_gpu();
  profile.hardware.memory_gb_per_s = 20.0;
  profile.hardware.memory_rate_spread = 0.1;
  PresentBox here = same_box(profile);
  here.hardware.memory_gb_per_s = 12.0;
  here.hardware.memory_rate_spread = 0.2;
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::same_box);
  here.hardware.memory_gb_per_s = 2.0;
  here.hardware.memory_rate_spread = 0.3;
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::same_box) << "others had the cores";
  here.hardware.memory_gb_per_s = 12.0;
  here.hardware.memory_rate_spread = 0.05;
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::other_rate);
}

// Nobody is told to run the check who reads what it says.
TEST(Staleness, ACheckSpeaksOfItself) {
  const LaunchProfile profile = profile_of_gpu();
  PresentBox here = same_box(profile);
  here.hardware.memory_gb_per_s = 2000.0;
  EXPECT_EQ(staleness_of(profile, here).words(Asker::check),
            "Other rate (memory_gb_per_s 4000 GB/s then, 2000 GB/s now): so says a short probe, which has no "
            "part in the verdict: that rests on the times of the configurations alone.");
  here.hardware.build = "0.1.0 def";
  const Staleness staleness = staleness_of(profile, here);
  EXPECT_EQ(staleness.words(Asker::check).find("moetune ci"), std::string::npos);
  EXPECT_NE(staleness.words().find("moetune ci"), std::string::npos);
  EXPECT_EQ(staleness.differences_text(Rung::other_software), "build 0.1.0 abc then, 0.1.0 def now");
}

struct Change {
  const char* field;
  Rung rung;
  std::function<void(PresentBox&)> make;
  const char* text;
};

class EachFieldTest : public testing::TestWithParam<Change> {};

TEST_P(EachFieldTest, PutsItOnARung) {
  const LaunchProfile profile = profile_of_gpu();
  PresentBox here = same_box(profile);
  GetParam().make(here);
  const Staleness staleness = staleness_of(profile, here);
  EXPECT_EQ(staleness.rung, GetParam().rung);
  ASSERT_EQ(staleness.differences.size(), 1U);
  EXPECT_TRUE(staleness.has(GetParam().field));
  EXPECT_EQ(staleness.differences_text(), GetParam().text);
  EXPECT_NE(staleness.words().find(trust_text(GetParam().rung)), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, EachFieldTest,
    testing::Values(
        Change{"driver", Rung::other_software,
               [](PresentBox& box) { box.hardware.driver = "580.95 (CUDA 13.0)"; },
               "driver 570.86 (CUDA 12.8) then, 580.95 (CUDA 13.0) now"},
        Change{"cuda", Rung::other_software, [](PresentBox& box) { box.hardware.cuda = "13.0"; },
               "cuda 12.8 then, 13.0 now"},
        Change{"build", Rung::other_software, [](PresentBox& box) { box.hardware.build = "0.1.0 def"; },
               "build 0.1.0 abc then, 0.1.0 def now"},
        Change{"os", Rung::other_software, [](PresentBox& box) { box.hardware.os = "Linux 6.9"; },
               "os Linux 6.8 then, Linux 6.9 now"},
        Change{"memory_gb_per_s", Rung::other_rate,
               [](PresentBox& box) { box.hardware.memory_gb_per_s = 2000.0; },
               "memory_gb_per_s 4000 GB/s then, 2000 GB/s now"},
        Change{"link_gb_per_s", Rung::other_rate, [](PresentBox& box) { box.hardware.link_gb_per_s = 25.0; },
               "link_gb_per_s 50 GB/s then, 25 GB/s now"},
        Change{"gpu_count", Rung::other_size, [](PresentBox& box) { box.hardware.gpu_count = 2; },
               "gpu_count 1 then, 2 now"},
        Change{"power_limit_watts", Rung::other_size,
               [](PresentBox& box) { box.hardware.power_limit_watts = 500.0; },
               "power_limit_watts 700 W then, 500 W now"},
        Change{"power_limit_watts", Rung::other_size,
               [](PresentBox& box) { box.hardware.power_limit_watts = 0.0; },
               "power_limit_watts 700 W then, not known now"},
        Change{"device_bytes", Rung::other_size,
               [](PresentBox& box) { box.hardware.device_bytes = std::int64_t{80} << 30; },
               "device_bytes 139 GiB then, 80.0 GiB now"},
        Change{"cpu_name", Rung::other_size, [](PresentBox& box) { box.hardware.cpu_name = "EPYC"; },
               "cpu_name Xeon then, EPYC now"},
        Change{"cpu_cores", Rung::other_size, [](PresentBox& box) { box.hardware.cpu_cores = 8; },
               "cpu_cores 16 then, 8 now"},
        Change{"interconnect", Rung::other_size,
               [](PresentBox& box) { box.hardware.interconnect = "NVLink"; },
               "interconnect none then, NVLink now"},
        Change{"device", Rung::other_device, [](PresentBox& box) { box.hardware.device = "NVIDIA H100"; },
               "device NVIDIA H200 then, NVIDIA H100 now"},
        Change{"compute_capability", Rung::other_device,
               [](PresentBox& box) { box.hardware.compute_capability = "10.0"; },
               "compute_capability 9.0 then, 10.0 now"},
        Change{"model_hash", Rung::other_model, [](PresentBox& box) { box.model_hash = "ffff"; },
               "model_hash 0123abcd then, ffff now"}));

TEST(Staleness, TheWorstFieldDecidesAndComesFirst) {
  const LaunchProfile profile = profile_of_gpu();
  PresentBox here = same_box(profile);
  here.hardware.build = "0.1.0 def";
  here.hardware.gpu_count = 4;
  const Staleness staleness = staleness_of(profile, here);
  EXPECT_EQ(staleness.rung, Rung::other_size);
  EXPECT_EQ(staleness.differences_text(), "gpu_count 1 then, 4 now; build 0.1.0 abc then, 0.1.0 def now");
}

TEST(Staleness, WithoutAModelOnlyTheBoxIsCompared) {
  const LaunchProfile profile = profile_of_gpu();
  EXPECT_EQ(staleness_of(profile, {.hardware = profile.hardware, .model_hash = ""}).rung, Rung::same_box);
}

// A processor without a GPU is the device itself, and a CUDA toolkit does not matter to it.
TEST(Staleness, AProcessorIsJudgedAsTheDevice) {
  LaunchProfile profile;
  profile.hardware.device = "cpu";
  profile.hardware.cpu_name = "Xeon";
  profile.hardware.cpu_cores = 2;
  profile.hardware.simd = "AVX2";
  profile.hardware.build = "0.1.0 abc";
  PresentBox here = same_box(profile);
  here.hardware.cuda = "12.8";
  here.hardware.driver = "580";
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::same_box);
  here.hardware.cpu_name = "EPYC";
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::other_device);
  here = same_box(profile);
  here.hardware.simd = "AVX3_DL";
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::other_device);
}

// Profiles of builds that did not look for it have no power limit: that is no difference.
TEST(Staleness, WhatAnOldProfileDoesNotSayIsNoDifference) {
  LaunchProfile profile = profile_of_gpu();
  PresentBox here = same_box(profile);
  profile.hardware.power_limit_watts = 0.0;
  profile.hardware.compute_capability = "";
  EXPECT_EQ(staleness_of(profile, here).rung, Rung::same_box);
}

}  // namespace
}  // namespace moetune
