#include "tuner/commands/npy.h"

#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory, and the header says '<f4'");

// Version 1.0 of the format: magic, version, header length, a Python dict padded so that the data starts at a multiple of 64.
std::string npy_header(std::int64_t rows, std::int64_t columns) {
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
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
    : path_(std::move(path)), partial_path_(path_ + ".partial"), rows_left_(rows), columns_(columns) {
  if (path_.empty()) throw InputError("--out", "''", "a file to write, such as logits.npy");
  if (std::filesystem::is_directory(path_)) throw InputError("--out", "'" + path_ + "' is a directory", "a file to write, such as logits.npy");
  file_.open(partial_path_, std::ios::binary | std::ios::trunc);
  if (!file_) throw InputError("--out", "cannot write '" + partial_path_ + "': " + std::strerror(errno), "a file in a writable directory");
  const std::string header = npy_header(rows, columns);
  file_.write(header.data(), static_cast<std::streamsize>(header.size()));
}

NpyWriter::~NpyWriter() {
  if (finished_) return;
  file_.close();
  std::error_code ignored;  // nothing better can be done about a file that cannot be removed
  std::filesystem::remove(partial_path_, ignored);
}

void NpyWriter::write_row(std::span<const float> row) {
  assert(std::ssize(row) == columns_ && rows_left_ > 0);
  file_.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size_bytes()));
  --rows_left_;
}

void NpyWriter::finish() {
  assert(rows_left_ == 0);
  file_.close();
  if (!file_) throw std::runtime_error("cannot write " + partial_path_ + ": " + std::strerror(errno));
  std::filesystem::rename(partial_path_, path_);
  finished_ = true;
}

}  // namespace moetune
