// What is concluded from a probe's answer: the device, its memory, its fingerprint. The answers are invented.
#include "tuner/commands/gpu_probe.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

GpuAnswer an_h200() {
  GpuReport report;
  report.facts = {.name = "NVIDIA H200",
                  .count = 8,
                  .memory_bytes = 140 * gib,
                  .free_bytes = 139 * gib + gib / 2,
                  .compute_capability = "9.0",
                  .multiprocessors = 132,
                  .driver = "13.0",
                  .runtime = "13.0",
                  .read_gb_per_s = 4470.0,
                  .link_gb_per_s = 55.5,
                  .pageable_gb_per_s = 11.5};
  report.driver_version = "580.95.05";
  report.bus_id = "0000:01:00.0";
  report.idle_watts = 76.0;
  report.idle_problem = "";
  report.power_limit_watts = 700.0;
  report.cublas_problem = "libcublasLt.so.13 is not found";
  return {.gpu = report, .problem = ""};
}
GpuAnswer none() { return {.gpu = {}, .problem = "no NVIDIA driver is loaded"}; }

TEST(GpuAnswer, SurvivesItsTripFromTheProbe) {
  const nlohmann::json object = to_json_value(an_h200());
  EXPECT_EQ(to_json_value(gpu_answer_from_json(object, "probe")), object);
  EXPECT_EQ(object.at("gpu").at("read_gb_per_s"), 4470.0);
  EXPECT_EQ(gpu_answer_from_json(to_json_value(none()), "probe").problem, "no NVIDIA driver is loaded");
}

TEST(GpuAnswer, OfNonsenseNamesTheField) {
  nlohmann::json object = to_json_value(an_h200());
  const auto complaint = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json changed = object;
    changed["gpu"][field] = value;
    return message_of<InputError>([&] { gpu_answer_from_json(changed, "probe"); });
  };
  EXPECT_TRUE(has_text(complaint("count", 0), "probe: gpu.count"));
  EXPECT_TRUE(has_text(complaint("free_bytes", 141 * gib), "probe: gpu.free_bytes"));
  EXPECT_TRUE(
      has_text(complaint("read_gb_per_s", 0), "probe: gpu.read_gb_per_s: 0 (accepted: GB/s, above 0)"));
  EXPECT_TRUE(has_text(complaint("colour", "green"), "colour"));
}

TEST(AnswerOf, ReadsWhatTheProbePrints) {
  const std::string line = to_json_value(an_h200()).dump();
  const GpuAnswer answer = answer_of({"/bin/echo", line});
  ASSERT_TRUE(answer.gpu) << answer.problem;
  EXPECT_EQ(answer.gpu->facts.name, "NVIDIA H200");
}

TEST(AnswerOf, AProbeThatFailsIsAnAnswer) {
  EXPECT_EQ(answer_of({"/bin/sh", "-c", "kill -SEGV $$"}).problem,
            "the process that looked at the GPU was killed by SIGSEGV");
  EXPECT_TRUE(has_text(answer_of({"/bin/echo", "hello"}).problem, "GPU probe"));
  EXPECT_TRUE(has_text(answer_of({"/bin/echo", "{}"}).problem, "problem"));
  EXPECT_TRUE(has_text(answer_of({"/no/such/program"}).problem, "cannot be started"));
}

TEST(ChooseDevice, TakesTheGpuWhereThereIsOne) {
  for (const char* asked : {"auto", "cuda"}) {
    const DeviceChoice choice = choose_device(asked, an_h200);
    EXPECT_EQ(choice.kind, DeviceKind::cuda) << asked;
    EXPECT_EQ(choice.gpu->facts.count, 8) << asked;
    EXPECT_EQ(choice.why_cpu, "") << asked;
  }
}

TEST(ChooseDevice, AutoFallsBackToTheCpuAndSaysWhy) {
  const DeviceChoice choice = choose_device("auto", none);
  EXPECT_EQ(choice.kind, DeviceKind::cpu);
  EXPECT_FALSE(choice.gpu);
  EXPECT_EQ(choice.why_cpu, "no NVIDIA driver is loaded");
}

TEST(ChooseDevice, CudaWithoutOneIsRefusedWithWhatIsMissing) {
  EXPECT_EQ(message_of<InputError>([] { choose_device("cuda", none); }),
            "--device: 'cuda': no NVIDIA driver is loaded (accepted: auto, cpu)");
}

TEST(ChooseDevice, CpuAsksNobody) {
  const DeviceChoice choice = choose_device("cpu", []() -> GpuAnswer { throw std::logic_error("asked"); });
  EXPECT_EQ(choice.kind, DeviceKind::cpu);
  EXPECT_EQ(choice.why_cpu, "");
}

TEST(PlannableBytes, LeaveRoomForTheContextAndForOthers) {
  GpuFacts gpu = an_h200().gpu->facts;
  EXPECT_EQ(plannable_bytes(gpu), 139 * gib);
  EXPECT_EQ(shared_memory_warning(gpu), "");
  gpu.free_bytes = 20 * gib;
  EXPECT_EQ(plannable_bytes(gpu), 20 * gib);
  EXPECT_TRUE(has_text(shared_memory_warning(gpu), "20.0 GiB of 140 GiB"));
  gpu.memory_bytes = 8 * gib;
  gpu.free_bytes = 8 * gib;
  EXPECT_EQ(plannable_bytes(gpu), 8 * gib - gib / 2);
}

TEST(DescribeGpu, FillsTheFingerprint) {
  HardwareFingerprint hardware;
  hardware.device = "cpu";
  hardware.cpu_name = "Example 9000";
  describe_gpu(hardware, *an_h200().gpu);
  EXPECT_EQ(hardware.device, "NVIDIA H200");
  EXPECT_EQ(hardware.gpu_count, 8);
  EXPECT_EQ(hardware.device_bytes, 139 * gib);
  EXPECT_EQ(hardware.memory_gb_per_s, 4470.0);
  EXPECT_EQ(hardware.link_gb_per_s, 55.5);
  EXPECT_EQ(hardware.driver, "580.95.05 (CUDA 13.0)");
  EXPECT_EQ(hardware.compute_capability, "9.0");
  EXPECT_EQ(hardware.multiprocessors, 132);
  EXPECT_EQ(hardware.idle_watts, 76.0);
  EXPECT_EQ(hardware.power_limit_watts, 700.0);
  EXPECT_EQ(hardware.cpu_name, "Example 9000");
}

}  // namespace
}  // namespace moetune
