// What a final round measured of one finalist, pass by pass: the series that two nights are compared by.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tuner/trial.h"

namespace moetune {

// Values of the metric in the passes of the newest round, in their order, up to the first turn that failed or
// lacks it. Empty: the trial was not in it.
std::vector<double> round_values(std::int64_t trial, std::span<const Trial> measured_again,
                                 const std::string& metric);

}  // namespace moetune
