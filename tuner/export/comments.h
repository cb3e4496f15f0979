// A server command's evidence, losses and silences as lines of text, for the comments in front of it. Start
// at comments_of().
#pragma once

#include <string>
#include <vector>

#include "tuner/export/translate.h"

namespace moetune {

inline constexpr auto config_name = "moetune-server.yaml";  // of a server's configuration file

std::string words_for_shell(const std::vector<std::string>& words);  // quoted where they have to be

// Everything about the command but the command, a line each. Not printable() yet.
std::vector<std::string> comments_of(const ServerCommand& command);

}  // namespace moetune
