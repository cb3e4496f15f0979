// Style and scripts of the pages, as text: tuner/report/page/*, put into the program by
// cmake/page_assets.cmake.
#pragma once

#include <string_view>

namespace moetune::page_assets {

extern const std::string_view style;
extern const std::string_view shared_script;   // data, numbers, SVG, tables
extern const std::string_view report_script;   // the charts of report.html
extern const std::string_view compare_script;  // the chart of compare.html

}  // namespace moetune::page_assets
