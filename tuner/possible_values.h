// What no measurement can have come to: a time below zero, a share above one, a value outside of its own
// interval. Readers take any finite number, as a made-up target may report any; `validate` asks here.
#pragma once

#include <string>

#include "tuner/measurement.h"

namespace moetune {

// Refuses (problems.h) every value, bound and p99 that its metric cannot have, by its place
// ("profile.json: evidence.tpot_ms.low"). Metrics that are not known may have any value.
void check_possible(const Metrics& metrics, const std::string& where);

}  // namespace moetune
