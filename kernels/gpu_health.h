// What the driver says about every GPU of this box, from NVML: link, throttling, memory errors, use,
// processes. The library is opened at run time, so the program also starts where there is none. Start at
// look_at_gpus(). Energy: gpu_power.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moetune {

struct GpuHealth {
  struct Process {
    std::int64_t pid = 0;
    std::string name;  // empty: the driver does not say
    std::int64_t bytes = 0;
  };

  struct Peer {
    std::string bus_id;          // of the other card
    std::optional<bool> nvlink;  // may each use the other's memory over NVLink, switches included?
    std::string path;  // over PCIe, as nvidia-smi topo names it: PIX, PXB, PHB, NODE, SYS; empty: not known
  };

  std::string name;
  std::string bus_id;  // "00000000:18:00.0"
  std::optional<int> pcie_generation;
  std::optional<int> pcie_width;
  std::optional<int> most_pcie_generation;
  std::optional<int> most_pcie_width;
  std::vector<std::string>
      throttle_reasons;  // hw_slowdown, hw_thermal, hw_power_brake, sw_thermal, power_cap
  std::optional<bool> ecc_enabled;
  std::optional<std::int64_t> uncorrected_errors;  // since the driver was loaded
  std::optional<int> busy_percent;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> used_bytes;
  std::optional<double> link_gb_per_s;  // received from the host, over the last 20 ms
  std::optional<int> nvlinks;           // that are up
  std::vector<Peer> peers;
  std::optional<double> celsius;
  std::vector<Process> processes;  // that compute
};

struct GpusSeen {
  std::string problem;  // why none could be looked at; empty: the list is what there is
  std::string driver_version;
  std::string driver_cuda;  // "13.0"
  std::vector<GpuHealth> gpus;
};

// Never throws. What a card or an old driver does not answer stays empty.
GpusSeen look_at_gpus(const std::string& library = "libnvidia-ml.so.1");

// "2.28.3"; empty where there is no such library.
std::string nccl_version(const std::string& library = "libnccl.so.2");

}  // namespace moetune
