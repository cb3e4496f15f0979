// Makes any text safe to stand in Markdown, HTML or in a CSV field: names of models and what crashed workers
// said come from elsewhere. For terminals: printable.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace moetune {

// Running text or a table cell of (GitHub) Markdown: no markup, HTML, link or cell end in it takes effect;
// one line.
std::string markdown_text(std::string_view text);

// The same as a code span; empty for an empty text.
std::string markdown_code(std::string_view text);

// A line of a fenced block: one line that cannot end the fence.
std::string fenced_line(std::string_view text);

// Content or a quoted attribute of an HTML element, one line: no tag, entity or end of the attribute in it
// takes effect.
std::string html_text(std::string_view text);

// A document for <script type="application/json">: nothing in it can end the element or begin a comment, and
// JSON readers see the same texts. Bytes that are no UTF-8 are replaced.
std::string script_json(const nlohmann::json& document);

// A word of a POSIX shell command, quoted where it has to be.
std::string shell_word(std::string_view text);
// The same of several words.
std::string shell_command(std::span<const std::string> words);

// One CSV field (RFC 4180), one line. A text that a spreadsheet would run as a formula gets a leading
// apostrophe.
std::string csv_field(std::string_view text);

}  // namespace moetune
