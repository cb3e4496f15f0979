// report.md: what to launch and why, the front, the default, every failure, how each number was made, how to
// do it again.
#pragma once

#include <string>

#include "tuner/report/run_report.h"

namespace moetune {

std::string to_markdown(const RunReport& report);

}  // namespace moetune
