#include "tuner/commands/elsewhere.h"

#include <algorithm>

#include <fmt/format.h>

#include "tuner/staleness.h"

namespace moetune {

std::string elsewhere_words(const LaunchProfile& profile, const HardwareFingerprint& host,
                            const GpusSeen& gpus) {
  const bool is_of_gpu = profile.hardware.gpu_count > 0;
  // What only a measurement or CUDA could tell is taken to be as it was.
  HardwareFingerprint here = profile.hardware;
  here.cpu_name = host.cpu_name;
  here.cpu_cores = host.cpu_cores;
  here.simd = host.simd;
  if (is_of_gpu) {
    // A process may be given fewer cards than the driver lists: only that some are missing is certain.
    here.gpu_count = std::min(profile.hardware.gpu_count, static_cast<int>(gpus.gpus.size()));
    here.device = gpus.gpus.empty() ? "no GPU" : gpus.gpus.front().name;
    if (!gpus.driver_version.empty())
      here.driver = fmt::format("{} (CUDA {})", gpus.driver_version, gpus.driver_cuda);
  }
  const Staleness staleness = staleness_of(profile, {.hardware = here, .model_hash = ""});
  return staleness.differences.empty() ? "" : "not measured on this box. " + staleness.words();
}

}  // namespace moetune
