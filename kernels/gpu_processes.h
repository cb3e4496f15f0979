// Who computes on a GPU, from NVML. Start at gpu_processes().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetune {

struct GpuProcess {
  unsigned id = 0;  // as the host counts; inside a container that may be another number than /proc knows
  std::int64_t bytes = 0;  // of the card's memory that it holds; 0: not known
};

struct GpuProcesses {
  std::vector<GpuProcess> processes;  // those that have a compute context, ours included
  std::string problem;                // why they cannot be asked for; empty: they can
};

// bus_id: PCI address, see gpu_bus_id(). Never throws.
GpuProcesses gpu_processes(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");

}  // namespace moetune
