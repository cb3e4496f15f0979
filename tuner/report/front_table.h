// The front as data: front.csv and front.json.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tuner/report/run_report.h"

namespace moetune {

// One row per trial of the front and the default; units in the headings, an interval beside every value. RFC
// 4180.
std::string to_csv(const RunReport& report);
nlohmann::json to_front_json(const RunReport& report);

}  // namespace moetune
