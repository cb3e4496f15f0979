// Which option of tune a field of a run's request follows from, so that a refused --resume can name it.
#pragma once

#include <string>

namespace moetune {

// field: of request.json ("conditions.latency_seconds") or hardware.json ("gpu_count"). "": no option decides
// it alone, such as the default configuration or the name of the processor.
std::string resume_option(const std::string& field);

}  // namespace moetune
