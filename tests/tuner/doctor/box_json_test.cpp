#include "tuner/doctor/box_json.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

BoxFacts full_box() {
  BoxFacts box;
  box.build_has_cuda = true;
  box.driver_version = "580";
  box.pinned_gb_per_s = 55.25;
  box.memory_kills = 3;
  box.our_numa_nodes = {0, 1};
  GpuState gpu;
  gpu.name = "H200";
  gpu.pcie_width = 16;
  gpu.throttle_reasons = {"power_cap"};
  gpu.numa_node = -1;
  gpu.ecc_enabled = false;
  gpu.processes = {{.pid = 5, .name = "x", .bytes = 7, .is_ours = true}};
  gpu.peers = {{.bus_id = "0000:19:00.0", .nvlink = true, .path = "NODE"}};
  box.gpus = {gpu};
  return box;
}

TEST(BoxJson, GoesThereAndBack) {
  const nlohmann::json written = to_json_value(full_box());
  const BoxFacts read = box_from_json(written, "box");
  EXPECT_EQ(to_json_value(read), written);
  EXPECT_EQ(read.gpus.at(0).processes.at(0).pid, 5);
  EXPECT_EQ(read.gpus.at(0).ecc_enabled, false);
  EXPECT_EQ(read.gpus.at(0).peers.at(0).nvlink, true);
  EXPECT_EQ(read.gpus.at(0).numa_node, -1);
  EXPECT_EQ(read.pinned_gb_per_s, 55.25);
  EXPECT_FALSE(read.load);
}

TEST(BoxJson, AnEmptyObjectIsABoxOfWhichNothingIsKnown) {
  EXPECT_TRUE(findings_of(box_from_json(nlohmann::json::object(), "box")).empty());
}

TEST(BoxJson, RefusesWhatIsNoBox) {
  for (const char* text :
       {R"({"gpu":[]})", R"({"gpus":{}})", R"({"gpus":[1]})", R"({"load":"high"})",
        R"({"machine_cores":1.5})", R"({"our_numa_nodes":["a"]})", R"({"gpus":[{"speed":1}]})", "[]", "3"})
    EXPECT_THROW(box_from_json(nlohmann::json::parse(text), "box"), InputError) << text;
}

}  // namespace
}  // namespace moetune
