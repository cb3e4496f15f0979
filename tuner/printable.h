// Any bytes as text that is safe to print: for what a dying worker wrote, names from files, and lines on a
// terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moetune {

// Valid UTF-8 on one line: control characters become spaces, invalid bytes '?'. Nothing in it can move a
// cursor.
std::string printable(std::string_view text);

// As printable(), but line ends stay: for messages of several lines.
std::string printable_lines(std::string_view text);

// As printable(), and cut to at most `columns` characters, with "..." in place of what is missing.
std::string fitted(std::string_view text, std::size_t columns);

// Characters (code points) of a valid UTF-8 text.
std::size_t character_count(std::string_view text);

}  // namespace moetune
