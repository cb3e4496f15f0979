#include "tuner/report/escape.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "tuner/printable.h"

namespace moetune {
namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
}  // namespace

std::string markdown_text(std::string_view text) {
  const std::string line = printable(text);
  std::string escaped;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool inside_word = i > 0 && is_word(line[i - 1]) && i + 1 < line.size() && is_word(line[i + 1]);
    const bool is_mark = std::string_view("\\`*[]<>|~").find(c) != std::string_view::npos;
    const bool starts_block = i == 0 && std::string_view("#+-=.:!").find(c) != std::string_view::npos;
    const bool starts_list =
        i > 0 && (c == '.' || c == ')') && (i + 1 == line.size() || line[i + 1] == ' ') &&
        std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(i), is_digit);
    const bool starts_link = c == ':' && line.compare(i, 3, "://") == 0;
    if (c == '&') {
      escaped += "&amp;";
    } else {
      // An underscore within a word is plain text: tpot_ms should stay readable.
      if (is_mark || starts_block || starts_list || starts_link || (c == '_' && !inside_word))
        escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

std::string markdown_code(std::string_view text) {
  std::string content = printable(text);
  if (content.empty()) return "";
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : content) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const bool needs_space = content.front() == '`' || content.back() == '`';
  // A pipe ends a table's cell even within a code span; the backslash is removed again by the table.
  for (std::size_t pipe = content.find('|'); pipe != std::string::npos; pipe = content.find('|', pipe + 2))
    content.insert(pipe, "\\");
  const std::string space = needs_space ? " " : "";
  return fence + space + content + space + fence;
}

std::string fenced_line(std::string_view text) {
  std::string line = printable(text);
  const std::size_t first = line.find_first_not_of(' ');
  if (first != std::string::npos && line.compare(first, 3, "```") == 0) line.insert(first, "\\");
  return line;
}

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string script_json(const nlohmann::json& document) {
  std::string escaped;
  // These stand within texts of a JSON document only, where \u means the same.
  for (const char c : document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        escaped += "\\u003c";
        break;
      case '>':
        escaped += "\\u003e";
        break;
      case '&':
        escaped += "\\u0026";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string shell_command(std::span<const std::string> words) {
  std::string command;
  for (const std::string& word : words) command.append(command.empty() ? "" : " ").append(shell_word(word));
  return command;
}

std::string csv_field(std::string_view text) {
  std::string field = printable(text);
  if (!field.empty() && std::string_view("=+-@").find(field.front()) != std::string_view::npos)
    field.insert(0, "'");
  if (field.find_first_of(",\"") == std::string::npos &&
      (field.empty() || (field.front() != ' ' && field.back() != ' ')))
    return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace moetune
