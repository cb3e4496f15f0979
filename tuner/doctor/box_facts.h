// What a box says about itself, as far as it can spoil or slow down serving. Plain data, so that a test can
// describe any box; commands/box_facts_of.h fills it in for this one. An empty optional is "not known", and
// no rule speaks about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moetune {

struct GpuProcess {
  std::int64_t pid = 0;
  std::string name;  // empty: not known (another user's, or another container's)
  std::int64_t bytes = 0;
  bool is_ours = false;  // this process or one that it started
};

struct GpuPeer {
  std::string bus_id;
  std::optional<bool> nvlink;  // each may use the other's memory over NVLink, switches included
  std::string path;  // over PCIe, as nvidia-smi topo names it: PIX, PXB, PHB, NODE, SYS; empty: not known
};

struct GpuState {
  std::string name;
  std::string bus_id;
  std::optional<int> pcie_generation;  // now: an idle card lowers it to save power
  std::optional<int> pcie_width;
  std::optional<int> most_pcie_generation;  // that card and slot can do
  std::optional<int> most_pcie_width;
  std::vector<std::string>
      throttle_reasons;  // hw_slowdown, hw_thermal, hw_power_brake, sw_thermal, power_cap
  std::optional<bool> ecc_enabled;
  std::optional<std::int64_t> uncorrected_errors;  // since the driver was loaded
  std::optional<int> busy_percent;                 // share of the last second or so in which a kernel ran
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> used_bytes;
  std::optional<double> link_gb_per_s;  // that the host sends to the card right now
  std::vector<GpuProcess> processes;
  std::optional<int> nvlinks;    // that are up
  std::vector<GpuPeer> peers;    // the other cards of the box
  std::optional<int> numa_node;  // of the slot
  std::optional<double> celsius;
};

struct BoxFacts {
  // GPU software
  bool build_has_cuda = false;
  std::string build_cuda;      // toolkit of this build: "13.0"; empty without
  std::string driver_version;  // "580.95.05"
  std::string driver_cuda;     // newest CUDA it runs: "13.0"
  std::string gpu_problem;   // why no GPU can be seen although there may be one; empty: none is expected, or
                             // all is well
  std::string nccl_version;  // empty: no NCCL found
  std::vector<GpuState> gpus;

  // measured rates, GB/s
  std::optional<double> pinned_gb_per_s;  // host to device
  std::optional<double> pageable_gb_per_s;
  std::optional<double> device_gb_per_s;  // reading device memory
  std::optional<double> host_gb_per_s;    // reading main memory

  // host
  std::int64_t host_bytes = 0;
  std::optional<std::int64_t> available_bytes;
  std::optional<std::int64_t> swap_bytes;
  std::optional<std::int64_t> swap_used_bytes;
  std::optional<double> swapping_mb_per_s;   // in and out, while we looked
  std::optional<std::int64_t> memory_kills;  // since boot, or in our control group
  int machine_cores = 0;
  int usable_cores = 0;
  std::optional<double> quota_cores;      // granted by the control group
  std::optional<double> throttled_share;  // of the control group's periods since it was made
  std::optional<double> load;             // runnable tasks, mean of the last minute
  int numa_nodes = 1;
  std::vector<int> our_numa_nodes;  // on which this process may run
};

}  // namespace moetune
