// Boxes that are made up, and what doctor must say about each. The five complaints of the field:
// complaints_test.cpp and model_names_test.cpp.
#include "tuner/doctor/findings.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

GpuState healthy_gpu() {
  GpuState gpu;
  gpu.name = "NVIDIA H200";
  gpu.bus_id = "0000:18:00.0";
  gpu.pcie_generation = 5;
  gpu.pcie_width = 16;
  gpu.most_pcie_generation = 5;
  gpu.most_pcie_width = 16;
  gpu.ecc_enabled = true;
  gpu.uncorrected_errors = 0;
  gpu.busy_percent = 0;
  gpu.memory_bytes = std::int64_t{139} << 30;
  gpu.used_bytes = std::int64_t{1} << 30;
  gpu.link_gb_per_s = 0.0;
  gpu.nvlinks = 18;
  gpu.numa_node = 0;
  return gpu;
}

BoxFacts healthy_box() {
  BoxFacts box;
  box.build_has_cuda = true;
  box.build_cuda = "12.4";
  box.driver_version = "580.95.05";
  box.driver_cuda = "13.0";
  box.nccl_version = "2.28.3";
  box.gpus = {healthy_gpu()};
  box.pinned_gb_per_s = 55.2;
  box.host_bytes = std::int64_t{128} << 30;
  box.swap_bytes = 0;
  box.swap_used_bytes = 0;
  box.swapping_mb_per_s = 0.0;
  box.memory_kills = 0;
  box.machine_cores = 16;
  box.usable_cores = 16;
  box.load = 0.3;
  box.our_numa_nodes = {0};
  return box;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

// The box with one thing changed has just that finding, of that severity, with a consequence and a remedy.
void expect_only(const BoxFacts& box, const std::string& id, Severity severity) {
  const std::vector<Finding> findings = findings_of(box);
  ASSERT_EQ(findings.size(), 1U) << (findings.size() > 1 ? findings[0].id + " " + findings[1].id : "none")
                                 << " for " << id;
  EXPECT_EQ(findings[0].id, id);
  EXPECT_EQ(findings[0].severity, severity) << id;
  EXPECT_FALSE(findings[0].what.empty());
  EXPECT_FALSE(findings[0].consequence.empty());
  EXPECT_FALSE(findings[0].remedy.empty());
}

TEST(Findings, AHealthyBoxHasNone) { EXPECT_TRUE(findings_of(healthy_box()).empty()); }

TEST(Findings, NothingIsSaidOfWhatIsNotKnown) {
  EXPECT_TRUE(findings_of(BoxFacts{}).empty());
  BoxFacts box;
  box.build_has_cuda = true;
  box.gpus = {GpuState{}};
  EXPECT_TRUE(findings_of(box).empty());
}

TEST(Findings, OfSoftware) {
  BoxFacts box = healthy_box();
  box.driver_cuda = "12.2";
  expect_only(box, "driver_older_than_cuda", Severity::warning);
  box.driver_cuda = "12.4";
  EXPECT_TRUE(findings_of(box).empty());
  box = healthy_box();
  box.build_cuda = "9.10";  // numbers, not letters
  EXPECT_TRUE(findings_of(box).empty());
  box = healthy_box();
  box.gpus.push_back(healthy_gpu());
  box.nccl_version = "";
  expect_only(box, "nccl_missing", Severity::warning);
  box = healthy_box();
  box.build_has_cuda = false;
  box.build_cuda = "";
  expect_only(box, "build_without_cuda", Severity::warning);
  box = BoxFacts{};
  box.gpu_problem = "no driver";
  expect_only(box, "gpu_unusable", Severity::warning);
}

TEST(Findings, OfTheLink) {
  BoxFacts box = healthy_box();
  box.gpus[0].pcie_width = 8;
  box.pinned_gb_per_s = 27.0;
  expect_only(box, "pcie_narrow", Severity::warning);
  box = healthy_box();
  box.gpus[0].pcie_generation = 1;  // asleep
  EXPECT_TRUE(findings_of(box).empty());
  box.gpus[0].busy_percent = 90;
  box.gpus[0].processes = {{.pid = 1, .name = "moetune", .bytes = 0, .is_ours = true}};
  expect_only(box, "pcie_slow", Severity::warning);
  box = healthy_box();
  box.pinned_gb_per_s = 20.0;
  expect_only(box, "link_below_its_rate", Severity::warning);
  box = healthy_box();
  box.pageable_gb_per_s = 6.0;
  expect_only(box, "pageable_slow", Severity::remark);
}

TEST(Findings, OfThrottling) {
  for (const char* reason : {"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal"}) {
    BoxFacts box = healthy_box();
    box.gpus[0].throttle_reasons = {reason};
    expect_only(box, "gpu_throttled", Severity::spoils);
  }
  BoxFacts box = healthy_box();
  box.gpus[0].throttle_reasons = {"power_cap"};
  expect_only(box, "gpu_power_capped", Severity::warning);
}

TEST(Findings, OfOthersOnTheGpu) {
  BoxFacts box = healthy_box();
  box.gpus[0].processes = {{.pid = 77, .name = "python3", .bytes = std::int64_t{3} << 30, .is_ours = false}};
  expect_only(box, "gpu_shared", Severity::warning);
  box.gpus[0].busy_percent = 40;
  expect_only(box, "gpu_in_use", Severity::spoils);
  EXPECT_NE(findings_of(box)[0].what.find("python3 (pid 77)"), std::string::npos);
  box.gpus[0].processes.clear();  // in another container
  expect_only(box, "gpu_in_use", Severity::spoils);
  box.gpus[0].processes = {{.pid = 1, .name = "moetune", .bytes = 1, .is_ours = true}};
  EXPECT_TRUE(findings_of(box).empty());
}

TEST(Findings, OfMemory) {
  BoxFacts box = healthy_box();
  box.gpus[0].uncorrected_errors = 2;
  expect_only(box, "ecc_errors", Severity::warning);
  box = healthy_box();
  box.gpus[0].ecc_enabled = false;
  expect_only(box, "ecc_off", Severity::remark);
  box = healthy_box();
  box.swap_used_bytes = std::int64_t{1} << 30;
  expect_only(box, "swap_used", Severity::warning);
  box.swapping_mb_per_s = kSwappingMbPerS;
  expect_only(box, "swap_used", Severity::warning);
  box.swapping_mb_per_s = kSwappingMbPerS + 1.0;
  expect_only(box, "swapping", Severity::spoils);
  box = healthy_box();
  box.memory_kills = 1;
  expect_only(box, "memory_kills", Severity::warning);
}

TEST(Findings, OfTheProcessor) {
  BoxFacts box = healthy_box();
  box.quota_cores = 4.0;
  expect_only(box, "cpu_quota", Severity::remark);
  box.throttled_share = 0.2;
  expect_only(box, "cpu_quota", Severity::warning);
  box = healthy_box();
  box.load = 40.0;
  expect_only(box, "cpu_busy", Severity::warning);
  box = healthy_box();
  box.numa_nodes = 2;
  box.our_numa_nodes = {0, 1};
  expect_only(box, "numa_spread", Severity::remark);
  box.our_numa_nodes = {1};
  expect_only(box, "numa_far_from_gpu", Severity::warning);
}

TEST(Findings, TheGravestComesFirst) {
  BoxFacts box = healthy_box();
  box.gpus[0].ecc_enabled = false;
  box.memory_kills = 1;
  box.gpus[0].throttle_reasons = {"hw_thermal"};
  const std::vector<Finding> findings = findings_of(box);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, Severity::spoils);
  EXPECT_EQ(findings[1].severity, Severity::warning);
  EXPECT_EQ(findings[2].severity, Severity::remark);
  EXPECT_EQ(find(findings, "nothing"), nullptr);
}

// The rule with numbers, on both sides of each.
TEST(Findings, BottleneckRule) {
  BoxFacts box = healthy_box();
  GpuState& gpu = box.gpus[0];
  gpu.used_bytes = gpu.memory_bytes;
  gpu.processes = {{.pid = 1, .name = "moetune", .bytes = 1, .is_ours = true}};
  gpu.busy_percent = kBusyPercent - 1;
  gpu.link_gb_per_s = kBusyLinkShare * 55.2 + 0.1;
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::copies);
  expect_only(box, "waits_for_copies", Severity::warning);
  gpu.link_gb_per_s = kBusyLinkShare * 55.2 - 0.1;
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::copies_in_turns);
  expect_only(box, "waits_in_turns", Severity::warning);
  gpu.link_gb_per_s = kQuietLinkShare * 55.2 - 0.1;
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::launches_or_synchronisation);
  expect_only(box, "waits_for_launches", Severity::warning);
  gpu.busy_percent = kBusyPercent;
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::none);
  gpu.busy_percent = 0;
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::none);
  gpu.busy_percent = 40;
  gpu.link_gb_per_s.reset();
  EXPECT_EQ(bottleneck_of(box, gpu), Bottleneck::unknown);
}

}  // namespace
}  // namespace moetune
