// Makes any text safe to stand in a Markdown cell or a CSV field. For terminals: printable.h.
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

}  // namespace moetune
