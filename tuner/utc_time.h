// Times in UTC, as texts. The only place of the tuner core that looks at the calendar.
#pragma once

#include <string>

namespace moetune {

std::string utc_now();          // "2026-11-29T16:46:39Z", ISO 8601
std::string utc_now_compact();  // "20261129T164639Z": the same for file names

bool is_utc(const std::string& text);  // as utc_now() writes it, of a day that there is

}  // namespace moetune
