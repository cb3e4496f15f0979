#include "tuner/commands/table.h"

#include <algorithm>
#include <sstream>

namespace moetune {
namespace {

// Characters a terminal shows: UTF-8 continuation bytes take no column.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first_of_line = lines.empty() || lines.back() == '\n' || column == indent;
    if (!first_of_line && column + 1 + columns_of(word) > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!first_of_line) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += columns_of(word);
  }
  return lines;
}

std::string Table::text(std::size_t width) const {
  std::vector<std::vector<std::string>> lines;
  if (!headings.empty()) lines.push_back(headings);
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], columns_of(line[i]));
  }
  std::string result;
  for (const auto& line : lines) {
    std::string out;
    std::size_t column = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - columns_of(line[i]), ' ');
      const bool right = i < alignment.size() && alignment[i] == Align::right;
      const bool last = i + 1 == line.size();
      if (right)
        out += padding + line[i];
      else
        out += last ? wrapped(line[i], width, column) : line[i] + padding;
      if (!last) out += "  ";
      column += widths[i] + 2;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    result += (result.empty() ? "" : "\n") + out;
  }
  return result;
}

}  // namespace moetune
