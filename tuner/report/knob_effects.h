// What one value of a knob takes in place of the default's, from pairs of trials that differ in nothing else:
// the only ones that show an effect, as a search changes several knobs at once. Start at knob_effects().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tuner/report/run_report.h"

namespace moetune {

struct KnobEffect {
  std::string knob;
  std::string value;
  std::string usual;          // the default's
  std::size_t pairs = 0;      // at least one
  double usual_median = 0.0;  // over the pairs, in the metric's own unit
  double change = 0.0;        // median of value - usual
  double least = 0.0;
  double most = 0.0;
  double ratio = 1.0;  // median of value / usual
};

// In the first objective; knobs and values in their order by name. Trials that failed show nothing.
std::vector<KnobEffect> knob_effects(const RunReport& report);

// "## What one knob changes" with a table, for report.md; empty without a pair.
std::string knob_effects_section(const RunReport& report);

}  // namespace moetune
