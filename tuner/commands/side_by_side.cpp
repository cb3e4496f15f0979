#include "tuner/commands/side_by_side.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "tuner/commands/table.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr std::size_t most_beside = 3;
constexpr std::size_t gap = 2;

// Where to cut a line that is too long: "knob=value" behind its sign, anything else where it must be.
std::size_t cut_of(const std::string& line, std::size_t width) {
  const std::size_t sign = line.rfind('=', width - 1);
  return sign == std::string::npos ? width : sign + 1;
}

// Lines of at most `width` characters; a word that is longer is cut.
std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream broken(wrapped(printable(text), width, 0));
  for (std::string line; std::getline(broken, line);) {
    while (character_count(line) > width && line.size() > width) {  // cuts between bytes of plain text only
      const std::size_t cut = cut_of(line, width);
      lines.push_back(line.substr(0, cut));
      line.erase(0, cut);
    }
    lines.push_back(line);
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t length = character_count(text);
  return length >= width ? text : text + std::string(width - length, ' ');
}

}  // namespace

std::string side_by_side(const std::vector<std::string>& headings, const std::vector<ComparisonRow>& rows,
                         std::size_t width) {
  std::size_t first = 0;
  for (const ComparisonRow& row : rows) first = std::max(first, character_count(row.name));
  first = std::min(first, width / 3);
  std::string text;
  for (std::size_t begin = 0; begin < headings.size(); begin += most_beside) {
    const std::size_t count = std::min(most_beside, headings.size() - begin);
    const std::size_t column = (width - first - gap * count) / count;
    const auto add = [&](const std::string& name, const std::vector<std::string>& cells) {
      std::vector<std::vector<std::string>> columns{lines_of(name, first)};
      for (std::size_t i = 0; i < count; ++i) columns.push_back(lines_of(cells[begin + i], column));
      std::size_t height = 0;
      for (const auto& lines : columns) height = std::max(height, lines.size());
      for (std::size_t line = 0; line < height; ++line) {
        std::string row;
        for (std::size_t i = 0; i < columns.size(); ++i) {
          const std::string cell = line < columns[i].size() ? columns[i][line] : "";
          row += padded(cell, i == 0 ? first : column) + std::string(gap, ' ');
        }
        row.erase(row.find_last_not_of(' ') + 1);
        text += row + "\n";
      }
    };
    if (begin > 0) text += "\n";
    add("", headings);
    text += std::string(width, '-') + "\n";
    for (const ComparisonRow& row : rows) add(row.name, row.cells);
  }
  return text;
}

}  // namespace moetune
