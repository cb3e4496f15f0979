// A night's check as JUnit XML, the form that CI servers show as a table of tests.
#pragma once

#include <string>

#include "tuner/nightly_record.h"

namespace moetune {

// One test suite: the baseline, each canary, the fingerprint and the machine are its cases. A regression is a
// failure; what cannot be judged (indeterminate, stale) is an error.
std::string to_junit(const NightlyRecord& record);

// A text inside XML or between its quotes. What XML 1.0 cannot hold (control characters, bytes that are no
// UTF-8) becomes '?'.
std::string xml_text(std::string_view text);

}  // namespace moetune
