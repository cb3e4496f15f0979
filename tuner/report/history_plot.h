// A history drawn with characters, for a terminal and, between fences, for Markdown. Start at draw_history().
#pragma once

#include <string>

#include "tuner/metric_history.h"

namespace moetune {

// Each metric of each series: a line a point with its value, its interval to scale and what changed.
std::string draw_history(const History& history);

// The same as a Markdown document.
std::string history_markdown(const History& history);

}  // namespace moetune
