// report.html: one file that needs no network and no other file. What is read first and what must survive
// without scripts (verdict, final round, failures, machine, how to do it again) is plain HTML; charts,
// filters and the picked configuration are drawn by tuner/report/page/*.js from the data embedded in the page
// (page_data.h).
#pragma once

#include <string>

#include "tuner/report/run_report.h"

namespace moetune {

std::string to_html(const RunReport& report);

}  // namespace moetune
