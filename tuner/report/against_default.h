// Did the search find something better than the default configuration? In numbers, and in one honest
// sentence. Whether it really is better: final_section.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tuner/report/run_report.h"

namespace moetune {

struct AgainstDefault {
  std::int64_t passing = 0;          // configurations other than the default that meet the gate
  std::int64_t better = 0;           // of those: better than the default in the first objective
  std::optional<std::int64_t> best;  // the best of those
  bool intervals_overlap = false;    // of the best one's and the default's
};

AgainstDefault against_default(const RunReport& report);

// "3 of 17 configurations that meet the int8 gate are better than the default in tpot_ms; the best is trial 7
// ...", or that none is. Of the search alone; with a final round it says that they looked better.
std::string against_default_words(const RunReport& report);

}  // namespace moetune
