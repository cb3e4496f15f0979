// Makes any text safe to stand in a Markdown cell, a CSV field or on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace moetune {

// Text of one Markdown table cell: no pipe, no markup, no HTML, no line end takes effect.
std::string markdown_text(std::string_view text);

// The same inside a code span or fence.
std::string markdown_code(std::string_view text);

// One CSV field (RFC 4180). A text that a spreadsheet would run as a formula gets a leading apostrophe.
std::string csv_field(std::string_view text);

// Valid UTF-8 without control characters (line ends become " / "); invalid bytes become '?'. For terminals and reasons.
std::string printable(std::string_view text);

// As printable(), and cut to at most `columns` characters, with "..." in place of what is missing.
std::string fitted(std::string_view text, std::size_t columns);

}  // namespace moetune
