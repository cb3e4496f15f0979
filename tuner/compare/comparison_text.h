// A comparison as rows (for terminals, Markdown and HTML alike), as JSON and as a page.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/compare/comparison.h"

namespace moetune {

// What stands above each box's column: its name, "(predicted)" where it was not measured, and where two would
// be the same also the model, or the file it comes from.
std::vector<std::string> comparison_headings(const Comparison& comparison);

// One figure of all boxes.
struct ComparisonRow {
  std::string name;                // "tpot_ms (ms per token)"
  std::vector<std::string> cells;  // one per box; "-": not known
};
// Rows in which no box has anything are left out.
std::vector<ComparisonRow> comparison_rows(const Comparison& comparison);

// What has to be said beside the rows: what was compared, remarks of boxes, sources of prices, what is
// missing.
std::vector<std::string> comparison_remarks(const Comparison& comparison);

nlohmann::json to_json_value(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
std::string comparison_html(const Comparison& comparison);

}  // namespace moetune
