// What the CUDA driver was asked for while something ran: calls, waits and copies, recorded by CUPTI. Its
// library is opened at run time; what a machine without it cannot say is why_not().
#pragma once

#include <map>
#include <string>

namespace moetune::testing {

struct CudaCalls {
  std::map<std::string, int> calls;  // of the runtime and of the driver, by name without version suffix
  int waits = 0;                     // synchronisation records
  int copies_to_host = 0;
  int dropped = 0;  // records that CUPTI lost: nothing else of this can be trusted then

  // Calls whose name contains the text.
  int named(const std::string& text) const;
  std::string text() const;
};

// Why nothing can be recorded here; empty: it can.
std::string why_no_cupti();

// Starts recording. One at a time.
void start_cupti_trace();
CudaCalls finish_cupti_trace();

}  // namespace moetune::testing
