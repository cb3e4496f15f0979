// Does the server that is installed here accept these flags? Its own --help says. Start at check_against().
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tuner/export/translate.h"

namespace moetune {

// Every "--word" in a help text, in one spelling (claims.h: plain_flag).
std::set<std::string> flags_in_help(std::string_view help);

struct HelpCheck {
  std::size_t accepted = 0;
  std::size_t refused = 0;
};
// Marks each line of the command that holds a flag.
HelpCheck check_against(ServerCommand& command, const std::set<std::string>& known);

}  // namespace moetune
