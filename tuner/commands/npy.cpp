#include "tuner/commands/npy.h"

#include <bit>
#include <cassert>
#include <utility>

#include <fmt/core.h>

namespace moetune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are written as they lie in memory, and the header says '<f4'");

// Version 1.0 of the format: magic, version, header length, a Python dict padded so that the data starts at a
// multiple of 64.
std::string npy_header(std::int64_t rows, std::int64_t columns) {
  std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr std::size_t preamble = 10;
  dict.append(63 - (preamble + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

NpyWriter::NpyWriter(std::string path, std::int64_t rows, std::int64_t columns)
    : file_("--out", std::move(path)), rows_left_(rows), columns_(columns) {
  const std::string header = npy_header(rows, columns);
  file_.write(header.data(), header.size());
}

void NpyWriter::write_row(std::span<const float> row) {
  assert(std::ssize(row) == columns_ && rows_left_ > 0);
  file_.write(row.data(), row.size_bytes());
  --rows_left_;
}

void NpyWriter::finish() {
  assert(rows_left_ == 0);
  file_.finish();
}

}  // namespace moetune
