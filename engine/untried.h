// What is built but has run on no GPU yet stays refused, except where a test or a first measurement asks for
// it by the environment variable MOETUNE_UNTRIED, a list with commas. Start at takes_untried().
#pragma once

#include <string_view>

namespace moetune {

// gpu_cache: an expert cache, miss=dma and router=cpu on a GPU. device_lookup: a CPU engine too decides about
// its cache by the ops that a GPU would run, so that all but the kernels can be tested without one.
inline constexpr std::string_view kUntriedGpuCache = "gpu_cache";
inline constexpr std::string_view kUntriedDeviceLookUp = "device_lookup";

bool takes_untried(std::string_view what);

}  // namespace moetune
