// The complaints of the field, each on a box that has its cause. A model name that a server rejects:
// model_names_test.cpp.
#include "tuner/doctor/complaints.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

enum Complaint : std::size_t { jittery_p99, slower_with_two_cards, slow_first_token, full_but_idle };

GpuState working_gpu() {
  GpuState gpu;
  gpu.name = "NVIDIA A100";
  gpu.bus_id = "0000:01:00.0";
  gpu.busy_percent = 40;
  gpu.memory_bytes = std::int64_t{80} << 30;
  gpu.used_bytes = std::int64_t{78} << 30;
  gpu.link_gb_per_s = 0.2;
  gpu.processes = {{.pid = 1, .name = "server", .bytes = 1, .is_ours = true}};
  return gpu;
}

BoxFacts box_with(const std::vector<GpuState>& gpus) {
  BoxFacts box;
  box.build_has_cuda = true;
  box.nccl_version = "2.28.3";
  box.pinned_gb_per_s = 25.0;
  box.gpus = gpus;
  return box;
}

Answer answer(const BoxFacts& box, Complaint complaint) {
  return answers_of(box, findings_of(box)).at(complaint);
}

void expect_cause(const Answer& answer, const std::string& words) {
  ASSERT_FALSE(answer.causes.empty()) << answer.complaint;
  EXPECT_NE(answer.causes.front().find(words), std::string::npos) << answer.causes.front();
}

TEST(Complaints, JitteryP99OnOneCard) {
  BoxFacts box = box_with({working_gpu()});
  box.gpus[0].throttle_reasons = {"sw_thermal"};
  box.gpus[0].celsius = 91.0;
  expect_cause(answer(box, jittery_p99), "clocks are held down (sw_thermal) at 91 C");
  box = box_with({working_gpu()});
  box.machine_cores = 16;
  box.quota_cores = 2.0;
  box.throttled_share = 0.3;
  expect_cause(answer(box, jittery_p99), "has stopped us in 30 % of its periods");
}

TEST(Complaints, ThroughputFallsWithTwoCards) {
  BoxFacts box = box_with({working_gpu(), working_gpu()});
  expect_cause(answer(box, slower_with_two_cards), "no NVLink");
  for (GpuState& gpu : box.gpus) gpu.nvlinks = 12;
  EXPECT_TRUE(answer(box, slower_with_two_cards).causes.empty());
  EXPECT_NE(answer(box, slower_with_two_cards).next.find("127 MB per layer"), std::string::npos);
  for (GpuState& gpu : box.gpus) gpu.peers = {{.bus_id = "0000:2a:00.0", .nvlink = true, .path = "SYS"}};
  box.gpus[1].nvlinks = 0;  // whether two cards reach each other is known: links are not counted
  EXPECT_TRUE(answer(box, slower_with_two_cards).causes.empty());
  box.gpus[1].peers[0].nvlink = false;
  expect_cause(answer(box, slower_with_two_cards), " and 0000:2a:00.0 (SYS over PCIe): every all-reduce");
  box.gpus[1].peers[0].nvlink = true;
  box.gpus[1].pcie_width = 4;
  box.gpus[1].most_pcie_width = 16;
  expect_cause(answer(box, slower_with_two_cards), "PCIe width x4");
}

TEST(Complaints, SecondsToTheFirstToken) {
  BoxFacts box = box_with({working_gpu()});
  box.gpus[0].link_gb_per_s = 24.0;
  expect_cause(answer(box, slow_first_token), "while the link carries 24.0 of 25.0 GB/s");
  EXPECT_NE(answer(box, slow_first_token).next.find("moetune tax"), std::string::npos);
}

TEST(Complaints, MemoryFullButGpuIdleAtForty) {
  BoxFacts box = box_with({working_gpu()});
  expect_cause(answer(box, full_but_idle), "kernels run 40 % of the time while the link carries 0.2");
  box.gpus[0].link_gb_per_s = 22.0;
  expect_cause(answer(box, full_but_idle), "kernels run 40 % of the time while the link carries");
  box.gpus[0].busy_percent = 95;
  EXPECT_TRUE(answer(box, full_but_idle).causes.empty());
  EXPECT_NE(answer(box, full_but_idle).next.find("not now"), std::string::npos);
}

TEST(Complaints, OfCardsThatAreNotThereNoAdviceIsGiven) {
  EXPECT_EQ(answer(box_with({}), slower_with_two_cards).next, "this box has no GPU");
  EXPECT_EQ(answer(box_with({}), full_but_idle).next, "this box has no GPU");
  EXPECT_EQ(answer(box_with({working_gpu()}), slower_with_two_cards).next, "this box has a single GPU");
}

TEST(Complaints, AHealthyBoxNamesNoCauseButTheNextStep) {
  for (const Answer& one : answers_of(BoxFacts{}, {})) {
    EXPECT_TRUE(one.causes.empty());
    EXPECT_FALSE(one.next.empty());
  }
}

}  // namespace
}  // namespace moetune
