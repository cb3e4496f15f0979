// What this box is, as far as it changes a measurement. Filled by engine/probe.h; travels in every profile
// and run.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

struct HardwareFingerprint {
  std::string device;  // "cpu" or the GPU's name
  int gpu_count = 0;
  std::int64_t device_bytes = 0;  // memory of one GPU, or of the machine, that this process may use
  std::string cpu_name;
  int cpu_cores = 0;  // cores this process may use (affinity and quota)
  std::string simd;   // widest instruction set the kernels use here, e.g. "AVX3_DL"
  std::int64_t host_bytes = 0;
  double memory_gb_per_s = 0.0;  // measured read rate of device memory (0: not measured)
  double memory_rate_spread =
      0.0;                     // share of it by which repeats of that measurement lay apart (0: not known)
  double link_gb_per_s = 0.0;  // measured host to device rate (0: none)
  std::string interconnect;    // between GPUs in use: "none", "NVLink", "PCIe"
  std::string driver;          // with the newest CUDA it runs; empty without a GPU
  std::string cuda;            // toolkit of this build, empty without
  std::string compute_capability;  // "9.0"; empty without a GPU
  int multiprocessors = 0;
  double idle_watts = 0.0;         // of the GPU before anything ran (0: not known)
  double power_limit_watts = 0.0;  // that the GPU keeps to (0: not known)
  std::string os;                  // kernel name and release
  std::string build;               // version and commit of moetune
};

}  // namespace moetune
