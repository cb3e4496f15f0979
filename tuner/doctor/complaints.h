// The complaints of the field and what this box says to them. Pure functions. Start at answers_of().
#pragma once

#include <string>
#include <vector>

#include "tuner/doctor/findings.h"

namespace moetune {

struct Answer {
  std::string complaint;  // as people say it
  std::vector<std::string>
      causes;        // found on this box, the likeliest first; empty: none of those that doctor knows
  std::string next;  // what to do, or to look at where nothing was found
};

// p99 that jumps on one card; throughput that falls with two cards; seconds to the first token; full memory
// beside a GPU that idles. The fifth, a model name that a server rejects, needs the server: model_names.h.
std::vector<Answer> answers_of(const BoxFacts& box, const std::vector<Finding>& findings);

}  // namespace moetune
