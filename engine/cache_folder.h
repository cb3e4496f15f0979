// Where a user's programs keep what they can make again, by the rules of XDG.
#pragma once

#include <filesystem>

namespace moetune {

// "~/.cache/moetune", or below $XDG_CACHE_HOME; it need not exist. Empty: neither it nor $HOME is an absolute
// path, and a relative one is to be ignored.
std::filesystem::path cache_folder();

}  // namespace moetune
