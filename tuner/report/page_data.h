// What the charts of report.html are drawn from, as one JSON document. Numbers are rounded to six digits: two
// thousand trials stay below three megabytes, and every digit stands in trials.jsonl. Read by
// tuner/report/page/data.js.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tuner/report/run_report.h"

namespace moetune {

nlohmann::json page_data(const RunReport& report);

}  // namespace moetune
