// What is there for tests or is not measured yet stays refused, except where the environment variable
// MOETUNE_UNTRIED, a list with commas, names it. Start at takes_untried().
#pragma once

#include <string_view>

namespace moetune {

// A CPU engine decides about its cache by the ops that a GPU runs, so that all but the kernels is tested
// without one.
inline constexpr std::string_view kUntriedDeviceLookUp = "device_lookup";

bool takes_untried(std::string_view what);

}  // namespace moetune
