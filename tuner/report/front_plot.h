// The final front in characters: a scatter of the first two objectives and a table below. At most 80 columns
// wide.
#pragma once

#include <string>

#include "tuner/report/run_report.h"
#include "tuner/terminal.h"

namespace moetune {

std::string draw_front(const RunReport& report, const Terminal& terminal);

}  // namespace moetune
