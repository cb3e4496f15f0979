// A night's check in the text format of Prometheus, for node_exporter's textfile collector.
#pragma once

#include <string>

#include "tuner/nightly_record.h"

namespace moetune {

// moetune_ci_verdict (1 for the one that holds), moetune_ci_slowdown_ratio (0.05: 5 % slower),
// moetune_ci_metric (units are in the metric's name), moetune_ci_threshold_ratio,
// moetune_ci_duration_seconds.
std::string to_prometheus(const NightlyRecord& record);

}  // namespace moetune
