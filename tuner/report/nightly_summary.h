// A night's check as Markdown, for the summary of a CI job or a merge request.
#pragma once

#include <string>

#include "tuner/nightly_record.h"

namespace moetune {

std::string to_markdown(const NightlyRecord& record);

}  // namespace moetune
