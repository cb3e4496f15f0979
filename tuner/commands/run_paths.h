// Where runs lie when nobody says so.
#pragma once

#include <string>

namespace moetune {

inline constexpr auto runs_folder = "runs";

// The newest run. Throws InputError when there is none yet.
std::string latest_run();

// The directory that a RUN argument means; empty: the newest run. Throws InputError when it is none.
std::string run_named(const std::string& path);

}  // namespace moetune
