// Writes a float32 matrix as a NumPy .npy file, row by row, so that it never has to be in memory as a whole.
// The file appears under its name only when it is complete: a stopped run leaves no half file that looks whole.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

namespace moetune {

class NpyWriter {
 public:
  // Throws InputError when the file cannot be made there.
  NpyWriter(std::string path, std::int64_t rows, std::int64_t columns);
  ~NpyWriter();  // removes what was written unless finish() was reached
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void write_row(std::span<const float> row);  // exactly `columns` values
  // Throws std::runtime_error when the disk did not take everything.
  void finish();

 private:
  std::string path_;
  std::string partial_path_;
  std::ofstream file_;
  std::int64_t rows_left_ = 0;
  std::int64_t columns_ = 0;
  bool finished_ = false;
};

}  // namespace moetune
