// What no measurement can have come to: a time below zero, a share above one, a value outside of its own
// interval; and no knob: a name or value that the knob table refuses. Readers of profiles ask here, and
// `validate` for all else; a trial log may hold any finite number, as a made-up target may report any.
#pragma once

#include <map>
#include <string>

#include "tuner/measurement.h"

namespace moetune {

// Refuses (problems.h) every value, bound and p99 that its metric cannot have, by its place
// ("profile.json: evidence.tpot_ms.low"). Metrics that are not known may have any value.
void check_possible(const Metrics& metrics, const std::string& where);

// Refuses every knob of a configuration that the knob table does not know and every value that it does not
// take, by its place ("profile.json: configuration.tensor_parallel").
void check_knob_values(const std::map<std::string, std::string>& values, const std::string& where);

}  // namespace moetune
