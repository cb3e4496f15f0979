// Texts that people and profiles give, before they enter a command. Start at check_text().
#pragma once

#include <string>

namespace moetune {

// Can it be an argument of a program and stand in JSON and YAML? Throws InputError for NUL and invalid UTF-8.
// where: for messages.
void check_text(const std::string& where, const std::string& text);

// The same for the value of an option ("server_model": --server-model), which a server must not take for a
// flag either.
void check_given(const std::string& name, const std::string& text);

}  // namespace moetune
