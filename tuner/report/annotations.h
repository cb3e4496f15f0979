// A night's check as workflow commands of GitHub Actions, which shows them beside the job.
#pragma once

#include <string>
#include <string_view>

#include "tuner/nightly_record.h"

namespace moetune {

// One line each, without a line end after the last: "::error title=...::..." of a regression, "::warning ..."
// of what cannot be judged and of remarks, "::notice ..." of ok.
std::string to_annotations(const NightlyRecord& record);

// Text of a workflow command: '%', carriage return and line end are written as %25, %0D and %0A.
std::string annotation_text(std::string_view text);

}  // namespace moetune
