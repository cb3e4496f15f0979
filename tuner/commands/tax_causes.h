// Why some tokens take longer than others, and what the host did meanwhile, in words and as JSON. Start at
// cause_of_slowest().
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tuner/targets/tax_run.h"

namespace moetune {

// Of the slowest hundredth: the part that holds most of what they take more, with what was seen beside it. A
// part that holds less than half of it is no cause. Empty where that hundredth is not known.
std::string cause_of_slowest(const PhaseTax& phase, const GpuUse& use);

// Host time by thread, in the runs that were not recorded. Empty where the kernel does not count it.
std::string host_text(const HostUse& host);
nlohmann::json to_json_value(const HostUse& host);

}  // namespace moetune
