// Rows of several boxes for a terminal: so many columns beside each other as 80 columns hold, the rest in
// further tables.
#pragma once

#include <string>
#include <vector>

#include "tuner/compare/comparison_text.h"

namespace moetune {

std::string side_by_side(const std::vector<std::string>& headings, const std::vector<ComparisonRow>& rows,
                         std::size_t width = 80);

}  // namespace moetune
