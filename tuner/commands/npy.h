// Writes a float32 matrix as a NumPy .npy file, row by row, so that it never has to be in memory as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tuner/commands/partial_file.h"

namespace moetune {

class NpyWriter {
 public:
  // Throws InputError when the file cannot be made there.
  NpyWriter(std::string path, std::int64_t rows, std::int64_t columns);

  void write_row(std::span<const float> row);  // exactly `columns` values
  // Throws std::runtime_error when the disk did not take everything.
  void finish();

 private:
  PartialFile file_;
  std::int64_t rows_left_ = 0;
  std::int64_t columns_ = 0;
};

}  // namespace moetune
