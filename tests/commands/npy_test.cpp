// The .npy files that NumPy has to read: header bytes, padding, payload, and nothing left behind by a stopped
// run.
#include "tuner/commands/npy.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

std::string bytes_in(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST(Npy, HoldsHeaderAndRows) {
  const TemporaryDirectory folder;
  const std::string path = folder / "logits.npy";
  NpyWriter file(path, 2, 3);
  file.write_row(std::array{1.0F, 2.0F, 3.0F});
  EXPECT_FALSE(std::filesystem::exists(path)) << "half a file must not look whole";
  file.write_row(std::array{4.0F, 5.0F, -6.5F});
  file.finish();

  const std::string bytes = bytes_in(path);
  ASSERT_GT(bytes.size(), 10U);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + header) % 64, 0U);
  const std::string dict = bytes.substr(10, header);
  EXPECT_TRUE(has_text(dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(dict.back(), '\n');
  ASSERT_EQ(bytes.size(), 10 + header + 6 * sizeof(float));
  std::array<float, 6> values{};
  std::memcpy(values.data(), bytes.data() + 10 + header, sizeof values);
  EXPECT_EQ(values, (std::array{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, -6.5F}));
}

TEST(Npy, UnfinishedFilesAreRemoved) {
  const TemporaryDirectory folder;
  {
    NpyWriter file(folder / "logits.npy", 2, 1);
    file.write_row(std::array{1.0F});
    EXPECT_TRUE(std::filesystem::exists(folder / "logits.npy.partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Npy, RefusesPlacesThatCannotBeWritten) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { NpyWriter(folder.path(), 1, 1); }), "is a directory"));
  EXPECT_TRUE(has_text(message_of<InputError>([] { NpyWriter("", 1, 1); }), "--out: ''"));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { NpyWriter(folder / "no/such/folder.npy", 1, 1); }),
                       "cannot write"));
}

}  // namespace
}  // namespace moetune
