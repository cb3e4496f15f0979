// What the final round found, or that there was none, for people: one sentence and one section of report.md.
#pragma once

#include <string>

#include "tuner/report/run_report.h"

namespace moetune {

// "Measured again in turns with the default, 9 times in fresh processes: trial 30 takes 14 % less ..."; the
// caution where there was no final round; empty: none was needed.
std::string final_words(const RunReport& report);

// What the round says about itself: the default against itself (against_itself()), and what changing weights
// took; empty: neither is known.
std::string control_words(const FinalRound& round);

// "## The final round" with a table; empty without a final round.
std::string final_section(const RunReport& report);

}  // namespace moetune
