// Reference logits on disk: what is written comes back, what is damaged or foreign does not, and the oldest
// make room.
#include "tuner/targets/reference_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

constexpr ReferenceShape small_shape{.positions = 4, .vocabulary = 5, .moe_layers = 2, .k = 3};

ReferenceGroup numbered(const ReferenceShape& shape) {
  ReferenceGroup group = ReferenceGroup::blank(shape);
  std::iota(group.logits.begin(), group.logits.end(), 0.5F);
  std::iota(group.expert_ids.begin(), group.expert_ids.end(), 7);
  std::iota(group.expert_weights.begin(), group.expert_weights.end(), -3.0F);
  return group;
}

class ReferenceStoreTest : public ::testing::Test {
 protected:
  std::string file() const { return folder_ / "deep/er/key.bin"; }

  TemporaryDirectory folder_;
  ReferenceStore store_{folder_ / "deep/er"};
};

TEST_F(ReferenceStoreTest, GivesBackWhatWasWritten) {
  const ReferenceGroup written = numbered(small_shape);
  ASSERT_EQ(store_.write("key", written), "");
  const auto read = store_.read("key", small_shape);
  ASSERT_TRUE(read);
  EXPECT_TRUE(std::ranges::equal(read->logits, written.logits));
  EXPECT_TRUE(std::ranges::equal(read->expert_ids, written.expert_ids));
  EXPECT_TRUE(std::ranges::equal(read->expert_weights, written.expert_weights));
  EXPECT_FALSE(store_.read("other", small_shape));
}

TEST_F(ReferenceStoreTest, AnotherShapeIsAbsent) {
  ASSERT_EQ(store_.write("key", numbered(small_shape)), "");
  ReferenceShape other = small_shape;
  other.vocabulary = 6;
  EXPECT_FALSE(store_.read("key", other));
  // The same number of bytes, cut differently.
  other = small_shape;
  other.moe_layers = 3;
  other.k = 2;
  EXPECT_FALSE(store_.read("key", other));
}

TEST_F(ReferenceStoreTest, EveryDamagedByteIsNoticed) {
  ASSERT_EQ(store_.write("key", numbered(small_shape)), "");
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(file()));
  for (std::streamoff place = 0; place < bytes; ++place) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(place);
    const int before = stream.get();
    stream.seekp(place);
    stream.put(static_cast<char>(before ^ 1));
    stream.close();
    EXPECT_FALSE(store_.read("key", small_shape)) << "byte " << place;
    stream.open(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(place);
    stream.put(static_cast<char>(before));
  }
  EXPECT_TRUE(store_.read("key", small_shape)) << "the test put every byte back";
  std::filesystem::resize_file(file(), static_cast<std::uintmax_t>(bytes - 1));
  EXPECT_FALSE(store_.read("key", small_shape));
}

TEST_F(ReferenceStoreTest, WhatCannotBeKeptIsSaidAndNoFailure) {
  EXPECT_NE(ReferenceStore("").write("key", numbered(small_shape)), "");
  EXPECT_FALSE(ReferenceStore("").read("key", small_shape));
  std::ofstream(folder_ / "file") << "in the way";
  EXPECT_NE(ReferenceStore(folder_ / "file/below").write("key", numbered(small_shape)), "");
}

TEST_F(ReferenceStoreTest, TheLeastRecentlyUsedLeavesFirst) {
  namespace fs = std::filesystem;
  const auto now = fs::file_time_type::clock::now();
  const auto stored = [&](const char* name, std::uintmax_t bytes, int age_hours) {
    fs::create_directories(folder_ / "deep/er");
    const std::string path = folder_ / (std::string("deep/er/") + name);
    std::ofstream(path) << "x";
    fs::resize_file(path, bytes);  // sparse: takes no disk
    fs::last_write_time(path, now - std::chrono::hours(age_hours));
    return path;
  };
  const std::string old = stored("old.bin", std::uintmax_t{1} << 30, 3);
  const std::string middle = stored("middle.bin", std::uintmax_t{1} << 30, 2);
  const std::string note = stored("note.txt", 1, 9);
  ASSERT_EQ(store_.write("key", numbered(small_shape)), "");
  EXPECT_FALSE(fs::exists(old)) << "2 GiB were full";
  EXPECT_TRUE(fs::exists(middle));
  EXPECT_TRUE(fs::exists(note)) << "not ours";
  EXPECT_TRUE(store_.read("key", small_shape));
}

}  // namespace
}  // namespace moetune
