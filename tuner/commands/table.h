// Lines up columns of text, for 80 columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moetune {

enum class Align : std::uint8_t { left, right };

struct Table {
  std::vector<std::string> headings = {};  // empty: no heading line
  std::vector<Align> alignment = {};       // one per column; left where shorter
  std::vector<std::vector<std::string>> rows = {};

  // Columns two blanks apart; the last column is not padded. Words of the last column that would pass `width`
  // go to a next line under it.
  std::string text(std::size_t width = 80) const;
};

// Breaks text at blanks so that no line is longer than width; lines after the first begin with `indent`
// blanks.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace moetune
