// Signatures and numbers as NVML's documentation has them (nvml.h 12.4): no header is needed, and what an
// older driver lacks stays unknown.
#include "kernels/gpu_health.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kernels/dynamic_library.h"

namespace moetune {
namespace {

using Result = int;  // nvmlReturn_t
constexpr Result success = 0;
struct Device;  // nvmlDevice_t points to one

struct Utilisation {
  unsigned gpu;
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct PciInfo {
  std::array<char, 16> legacy_bus_id;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  std::array<char, 32> bus_id;
};

constexpr unsigned long long bytes_not_available = ~0ULL;
constexpr unsigned received = 1;           // NVML_PCIE_UTIL_RX_BYTES
constexpr unsigned uncorrected = 1;        // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned since_driver_load = 0;  // NVML_VOLATILE_ECC
constexpr unsigned gpu_sensor = 0;         // NVML_TEMPERATURE_GPU
constexpr unsigned most_nvlinks = 18;
constexpr int over_nvlink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int peer_ok = 0;      // NVML_P2P_STATUS_OK
constexpr std::array paths = {std::pair{10, "PIX"}, std::pair{20, "PXB"}, std::pair{30, "PHB"},
                              std::pair{40, "NODE"}, std::pair{50, "SYS"}};
constexpr std::array throttling = {std::pair{0x4ULL, "power_cap"}, std::pair{0x8ULL, "hw_slowdown"},
                                   std::pair{0x20ULL, "sw_thermal"}, std::pair{0x40ULL, "hw_thermal"},
                                   std::pair{0x80ULL, "hw_power_brake"}};

class Library : public DynamicLibrary {
 public:
  using DynamicLibrary::DynamicLibrary;

  // The function's result; a function that is not there fails.
  template <class... Parameters>
  Result call(const char* name, Parameters... parameters) const {
    Result (*function)(Parameters...) = nullptr;
    return find(function, name) ? function(parameters...) : -1;
  }
  template <class Value>
  std::optional<int> number(const char* name, Device* device) const {
    Value value{};
    return call(name, device, &value) == success ? std::optional(static_cast<int>(value)) : std::nullopt;
  }
  std::string text(const char* name, Device* device) const {
    std::array<char, 96> text{};
    return call(name, device, text.data(), static_cast<unsigned>(text.size())) == success ? text.data() : "";
  }
};

std::vector<std::string> throttle_reasons(const Library& nvml, Device* device) {
  unsigned long long bits = 0;
  std::vector<std::string> reasons;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &bits) != success) return reasons;
  for (const auto& [bit, name] : throttling)
    if ((bits & bit) != 0) reasons.emplace_back(name);
  return reasons;
}

std::vector<GpuHealth::Process> processes_on(const Library& nvml, Device* device) {
  std::array<ProcessInfo, 64> infos{};
  auto count = static_cast<unsigned>(infos.size());
  std::vector<GpuHealth::Process> processes;
  if (nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, infos.data()) != success)
    return processes;
  for (unsigned i = 0; i < count && i < infos.size(); ++i) {
    std::array<char, 256> name{};
    const bool has_name = nvml.call("nvmlSystemGetProcessName", infos[i].pid, name.data(),
                                    static_cast<unsigned>(name.size())) == success;
    const std::string path = has_name ? name.data() : "";
    processes.push_back({.pid = infos[i].pid,
                         .name = path.substr(path.find_last_of('/') + 1),
                         .bytes = infos[i].used_bytes == bytes_not_available
                                      ? 0
                                      : static_cast<std::int64_t>(infos[i].used_bytes)});
  }
  return processes;
}

std::optional<int> active_nvlinks(const Library& nvml, Device* device) {
  std::optional<int> active;
  for (unsigned link = 0; link < most_nvlinks; ++link) {
    unsigned is_active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &is_active) == success)
      active = active.value_or(0) + static_cast<int>(is_active);
  }
  return active;
}

std::string path_between(const Library& nvml, Device* one, Device* other) {
  int level = 0;
  if (nvml.call("nvmlDeviceGetTopologyCommonAncestor", one, other, &level) != success) return "";
  const auto* const known = std::ranges::find(paths, level, &std::pair<int, const char*>::first);
  return known == paths.end() ? "" : known->second;
}

void look_at_peers(const Library& nvml, std::span<Device* const> devices, std::vector<GpuHealth>& gpus) {
  for (std::size_t one = 0; one < devices.size(); ++one)
    for (std::size_t other = 0; other < devices.size(); ++other) {
      if (one == other) continue;
      GpuHealth::Peer peer{.bus_id = gpus[other].bus_id,
                           .nvlink = std::nullopt,
                           .path = path_between(nvml, devices[one], devices[other])};
      int status = 0;
      if (nvml.call("nvmlDeviceGetP2PStatus", devices[one], devices[other], over_nvlink, &status) == success)
        peer.nvlink = status == peer_ok;
      gpus[one].peers.push_back(std::move(peer));
    }
}

GpuHealth health_of(const Library& nvml, Device* device) {
  GpuHealth gpu;
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  PciInfo pci{};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == success) gpu.bus_id = pci.bus_id.data();
  gpu.pcie_generation = nvml.number<unsigned>("nvmlDeviceGetCurrPcieLinkGeneration", device);
  gpu.pcie_width = nvml.number<unsigned>("nvmlDeviceGetCurrPcieLinkWidth", device);
  gpu.most_pcie_generation = nvml.number<unsigned>("nvmlDeviceGetMaxPcieLinkGeneration", device);
  gpu.most_pcie_width = nvml.number<unsigned>("nvmlDeviceGetMaxPcieLinkWidth", device);
  gpu.throttle_reasons = throttle_reasons(nvml, device);
  unsigned current = 0;
  unsigned pending = 0;
  if (nvml.call("nvmlDeviceGetEccMode", device, &current, &pending) == success)
    gpu.ecc_enabled = current != 0;
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, uncorrected, since_driver_load, &errors) == success)
    gpu.uncorrected_errors = static_cast<std::int64_t>(errors);
  if (Utilisation use{}; nvml.call("nvmlDeviceGetUtilizationRates", device, &use) == success)
    gpu.busy_percent = static_cast<int>(use.gpu);
  if (Memory memory{}; nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == success) {
    gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
    gpu.used_bytes = static_cast<std::int64_t>(memory.used);
  }
  unsigned kilobytes = 0;
  if (nvml.call("nvmlDeviceGetPcieThroughput", device, received, &kilobytes) == success)
    gpu.link_gb_per_s = kilobytes / 1e6;
  gpu.nvlinks = active_nvlinks(nvml, device);
  unsigned degrees = 0;
  if (nvml.call("nvmlDeviceGetTemperature", device, gpu_sensor, &degrees) == success) gpu.celsius = degrees;
  gpu.processes = processes_on(nvml, device);
  return gpu;
}

std::string version_text(int number, int major_unit, int minor_unit) {
  return std::to_string(number / major_unit) + "." + std::to_string(number % major_unit / minor_unit);
}

}  // namespace

GpusSeen look_at_gpus(const std::string& library) {
  GpusSeen seen;
  const Library nvml(library);
  if (!nvml.is_open()) {
    seen.problem = "no driver: " + library + " cannot be opened";
    return seen;
  }
  if (const Result result = nvml.call("nvmlInit_v2"); result != success) {
    seen.problem = "NVML cannot be used: error " + std::to_string(result);
    return seen;
  }
  std::array<char, 96> text{};
  if (nvml.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size())) == success)
    seen.driver_version = text.data();
  int cuda = 0;
  if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == success)
    seen.driver_cuda = version_text(cuda, 1000, 10);
  unsigned count = 0;
  if (nvml.call("nvmlDeviceGetCount_v2", &count) != success)
    seen.problem = "NVML does not say how many GPUs there are";
  std::vector<Device*> devices;
  for (unsigned i = 0; i < count; ++i) {
    Device* device = nullptr;
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) != success) continue;
    seen.gpus.push_back(health_of(nvml, device));
    devices.push_back(device);
  }
  look_at_peers(nvml, devices, seen.gpus);
  nvml.call("nvmlShutdown");
  return seen;
}

std::string nccl_version(const std::string& library) {
  const Library nccl(library);
  int version = 0;
  if (!nccl.is_open() || nccl.call("ncclGetVersion", &version) != success) return "";
  // 22803 since 2.9, 2708 before.
  const int major_unit = version >= 10000 ? 10000 : 1000;
  return version_text(version, major_unit, 100) + "." + std::to_string(version % 100);
}

}  // namespace moetune
