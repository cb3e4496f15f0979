// Spill files: written once, found again, written again when they do not match, and clear words when the disk
// is full.
#include "engine/spill_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/cache_folder.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

const SpillContents kContents{
    .model_hash = "c0ffee", .number_type = "int8", .rank = 1, .ranks = 2, .experts = 7, .expert_bytes = 192};

// Expert i is i's byte over and over.
struct CountingPacker {
  int calls = 0;
  int packed = 0;
  PackExperts function() {
    return [this](std::int64_t begin, std::int64_t count, std::byte* destination) {
      ++calls;
      packed += static_cast<int>(count);
      for (std::int64_t i = 0; i < count; ++i)
        std::fill_n(destination + i * kContents.expert_bytes, kContents.expert_bytes,
                    static_cast<std::byte>(begin + i));
    };
  }
};

void expect_contents(const SpillFile& file) {
  for (const std::int64_t index : {std::int64_t{6}, std::int64_t{0}, std::int64_t{3}}) {
    std::vector<std::byte> expert(static_cast<std::size_t>(kContents.expert_bytes), std::byte{0xFF});
    file.read(index, expert.data());
    EXPECT_EQ(expert, std::vector<std::byte>(expert.size(), static_cast<std::byte>(index)));
  }
}

std::vector<std::string> names_in(const TemporaryDirectory& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST(SpillFile, IsWrittenOnceAndFoundAgain) {
  const TemporaryDirectory folder;
  CountingPacker packer;
  for (int run = 0; run < 3; ++run)
    expect_contents(*open_spill_file(folder.path().string(), kContents, packer.function()));
  EXPECT_EQ(packer.packed, 7);
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"c0ffee-int8-2of2.experts"});
}

TEST(SpillFile, IsWrittenAgainWhenItIsNotWhatItsNameSays) {
  const TemporaryDirectory folder;
  const std::string path = folder / "c0ffee-int8-2of2.experts";
  CountingPacker packer;
  open_spill_file(folder.path().string(), kContents, packer.function());
  const std::string good = read_bytes(path);
  std::string other_header = good;
  other_header[30] = static_cast<char>(other_header[30] + 1);
  int written = 7;
  for (const std::string& bad :
       {good.substr(0, good.size() - 1), good + "x", std::string(), other_header, std::string("short")}) {
    write_bytes(path, bad);
    expect_contents(*open_spill_file(folder.path().string(), kContents, packer.function()));
    written += 7;
    EXPECT_EQ(packer.packed, written);
    EXPECT_EQ(read_bytes(path), good);
  }
  SpillContents longer = kContents;  // same name, another layout
  longer.expert_bytes = 256;
  std::vector<std::byte> expert(256);
  open_spill_file(folder.path().string(), longer,
                  [](std::int64_t, std::int64_t count, std::byte* destination) {
                    std::fill_n(destination, count * 256, std::byte{9});
                  })
      ->read(6, expert.data());
  EXPECT_EQ(expert, std::vector<std::byte>(256, std::byte{9}));
}

TEST(SpillFile, LeavesNothingBehindWhenPackingFails) {
  const TemporaryDirectory folder;
  EXPECT_THROW(
      open_spill_file(folder.path().string(), kContents,
                      [](std::int64_t, std::int64_t, std::byte*) { throw std::runtime_error("no weights"); }),
      std::runtime_error);
  EXPECT_TRUE(names_in(folder).empty());
}

TEST(SpillFile, SaysThatTheDiskIsFull) {
  const TemporaryDirectory folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler =
      std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit then fails like one to a full disk
  rlimit small = before;
  small.rlim_cur = 4096 + 500;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  CountingPacker packer;
  const std::string message = message_of<std::runtime_error>(
      [&] { open_spill_file(folder.path().string(), kContents, packer.function()); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(has_text(message, folder.path().string()));
  EXPECT_TRUE(has_text(message, "cannot be written"));
  EXPECT_TRUE(names_in(folder).empty()) << "a partial file was left on the full disk";
  expect_contents(*open_spill_file(folder.path().string(), kContents, packer.function()));
}

TEST(SpillFile, SaysThatAFolderCannotBeMade) {
  const TemporaryDirectory folder;
  write_bytes(folder / "file", "not a folder");
  const std::string message = message_of<std::runtime_error>(
      [&] { open_spill_file(folder / "file/below", kContents, CountingPacker{}.function()); });
  EXPECT_TRUE(has_text(message, "file/below"));
}

TEST(SpillFile, RemovesWhatAKilledWriterLeft) {
  const TemporaryDirectory folder;
  const std::string old_partial = folder / "c0ffee-int8-2of2.experts.aaaaaa.partial";
  const std::string new_partial = folder / "c0ffee-int8-2of2.experts.bbbbbb.partial";
  write_bytes(old_partial, "half");
  write_bytes(new_partial, "half");
  fs::last_write_time(old_partial, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CountingPacker packer;
  open_spill_file(folder.path().string(), kContents, packer.function());
  EXPECT_FALSE(fs::exists(old_partial));
  EXPECT_TRUE(fs::exists(new_partial)) << "its writer may be alive";
}

TEST(SpillFile, SaysWhenItWasCutWhileInUse) {
  const TemporaryDirectory folder;
  CountingPacker packer;
  const auto file = open_spill_file(folder.path().string(), kContents, packer.function());
  fs::resize_file(file->path(), 4096 + 6 * 192 + 10);
  std::vector<std::byte> expert(192);
  EXPECT_NO_THROW(file->read(5, expert.data()));
  const std::string message = message_of<std::runtime_error>([&] { file->read(6, expert.data()); });
  EXPECT_TRUE(has_text(message, file->path()));
  EXPECT_TRUE(has_text(message, "182 bytes too early"));
}

TEST(SpillDirectory, FollowsTheUsersCacheFolder) {
  const testing::CacheFolder folder;
  EXPECT_EQ(spill_directory(), std::string(std::getenv("XDG_CACHE_HOME")) + "/moetune");
  const std::string cache = std::getenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  ::setenv("HOME", "/somewhere", 1);
  for (const char* unusable : {"", "relative/path"}) {
    ::setenv("XDG_CACHE_HOME", unusable, 1);
    EXPECT_EQ(spill_directory(), "/somewhere/.cache/moetune");
  }
  ::unsetenv("HOME");
  EXPECT_EQ(spill_directory(), (fs::temp_directory_path() / "moetune").string());
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace moetune
