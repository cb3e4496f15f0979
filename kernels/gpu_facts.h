// What a GPU is and how fast its memory and its link to the host are, measured. Start at measure_gpu();
// declared everywhere, built where there is a CUDA toolkit.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

struct GpuFacts {
  std::string name;
  int count = 0;                   // GPUs this process may use; the facts are those of the first
  std::int64_t memory_bytes = 0;   // of the card
  std::int64_t free_bytes = 0;     // of it, with the context of one process like ours already taken out
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;
  std::string driver;              // newest CUDA version the driver runs: "13.0"
  std::string runtime;             // CUDA version this program was built with
  double read_gb_per_s = 0.0;      // device memory, read from beyond the L2
  double link_gb_per_s = 0.0;      // from pinned host memory
  double pageable_gb_per_s = 0.0;  // from any other: the driver copies it to pinned memory first
};

// PCI address of a GPU, by which NVML knows it: the two count differently. Makes no context.
// Throws std::runtime_error saying why when there is no usable GPU.
std::string gpu_bus_id(int ordinal);

// Makes a context and takes about half a second, so it belongs into a process of its own.
// Throws std::runtime_error saying why when the GPU cannot be used, or reads wrong values.
GpuFacts measure_gpu(int ordinal);

}  // namespace moetune
