// What is said about a command line that cannot be read: one message naming the flag, the value and what is
// accepted.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace moetune {

// Throws InputError for the first word that no option or command took, suggesting the nearest one that
// exists.
void refuse_unknown_words(const CLI::App& program);

// CLI11's complaint in our words.
std::string message_of(const CLI::App& program, const CLI::ParseError& error);

}  // namespace moetune
