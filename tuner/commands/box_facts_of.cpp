#include "tuner/commands/box_facts_of.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/probe.h"
#include "kernels/cpu_quota.h"
#include "kernels/parallel_for.h"
#include "moetune/build_info.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/doctor/bus_id.h"
#include "tuner/doctor/host_facts.h"
#include "tuner/memory_kills.h"
#include "tuner/other_work.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr int longest_ancestry = 64;
constexpr int most_looks = 9;
constexpr std::chrono::milliseconds between_looks(500);

bool descends_from(std::int64_t pid, std::int64_t ancestor, const std::string& proc) {
  for (int steps = 0; pid > 1 && steps < longest_ancestry; ++steps) {
    if (pid == ancestor) return true;
    const std::optional<ProcessUse> process = process_use_of(static_cast<pid_t>(pid), proc);
    pid = process ? process->parent : 0;
  }
  return false;
}

std::optional<int> numa_node_of(const std::string& bus_id) {
  std::ifstream file("/sys/bus/pci/devices/" + short_bus_id(bus_id) + "/numa_node");
  if (int node = 0; file >> node) return node;
  return std::nullopt;
}

bool has_sign_of_gpu() {
  const std::array signs = {"/proc/driver/nvidia/version", "/dev/nvidia0"};
  return std::ranges::any_of(signs, [](const char* sign) {
    std::error_code ignored;  // unreadable counts as absent
    return fs::exists(sign, ignored);
  });
}

void measure_rates(BoxFacts& box) {
  box.host_gb_per_s = measured_read_rate(0).gb_per_s;
  if (box.gpus.empty() || !build_info::has_cuda) return;
  const GpuAnswer answer = ask_for_gpu();
  if (!answer.gpu) {
    box.gpu_problem = answer.problem;
    return;
  }
  box.pinned_gb_per_s = answer.gpu->facts.link_gb_per_s;
  box.pageable_gb_per_s = answer.gpu->facts.pageable_gb_per_s;
  box.device_gb_per_s = answer.gpu->facts.read_gb_per_s;
}

}  // namespace

GpuState state_of(const GpuHealth& health, const std::string& proc, std::int64_t our_pid) {
  GpuState gpu;
  gpu.name = health.name;
  gpu.bus_id = health.bus_id;
  gpu.pcie_generation = health.pcie_generation;
  gpu.pcie_width = health.pcie_width;
  gpu.most_pcie_generation = health.most_pcie_generation;
  gpu.most_pcie_width = health.most_pcie_width;
  gpu.throttle_reasons = health.throttle_reasons;
  gpu.ecc_enabled = health.ecc_enabled;
  gpu.uncorrected_errors = health.uncorrected_errors;
  gpu.busy_percent = health.busy_percent;
  gpu.memory_bytes = health.memory_bytes;
  gpu.used_bytes = health.used_bytes;
  gpu.link_gb_per_s = health.link_gb_per_s;
  gpu.nvlinks = health.nvlinks;
  for (const GpuHealth::Peer& peer : health.peers)
    gpu.peers.push_back({.bus_id = peer.bus_id, .nvlink = peer.nvlink, .path = peer.path});
  gpu.celsius = health.celsius;
  gpu.numa_node = numa_node_of(health.bus_id);
  for (const GpuHealth::Process& process : health.processes)
    gpu.processes.push_back({.pid = process.pid,
                             .name = process.name,
                             .bytes = process.bytes,
                             .is_ours = descends_from(process.pid, our_pid, proc)});
  return gpu;
}

GpusSeen look_at_settled_gpus(const std::function<GpusSeen()>& look,
                              const std::function<void(std::chrono::milliseconds)>& wait) {
  const auto is_unexplained = [](const GpuHealth& gpu) {
    return gpu.processes.empty() && gpu.busy_percent.value_or(0) >= kForeignBusyPercent;
  };
  GpusSeen seen = look();
  for (int looks = 1; looks < most_looks && std::ranges::any_of(seen.gpus, is_unexplained); ++looks) {
    wait(between_looks);
    seen = look();
  }
  return seen;
}

BoxFacts look_at_box(bool measures) {
  const auto wait = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); };
  BoxFacts box;
  box.build_has_cuda = build_info::has_cuda;
  box.build_cuda = build_info::cuda_version;
  const GpusSeen seen = look_at_settled_gpus([] { return look_at_gpus(); }, wait);
  box.driver_version = seen.driver_version;
  box.driver_cuda = seen.driver_cuda;
  if (has_sign_of_gpu()) box.gpu_problem = seen.problem;
  box.nccl_version = nccl_version();
  for (const GpuHealth& health : seen.gpus) box.gpus.push_back(state_of(health, "/proc", getpid()));
  read_host_facts("/", wait, box);
  box.usable_cores = usable_cores();
  box.quota_cores = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (const auto kills = memory_kills(memory_kill_counter_file()))
    box.memory_kills = static_cast<std::int64_t>(*kills);
  if (measures) measure_rates(box);
  return box;
}

std::vector<Finding> findings_for(BoxFacts box, bool runs_on_gpu) {
  if (!runs_on_gpu) {
    box.gpus.clear();
    box.gpu_problem.clear();
  }
  return findings_of(box);
}

}  // namespace moetune
