// One holder at a time, and those who wait are told whom they wait for.
#include "tuner/device_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

constexpr auto gpu = "0000:01:00.0";

TEST(DeviceLock, IsHeldByOneAndGivenBackWithItsEnd) {
  const TemporaryDirectory folder;
  const std::string path = folder.path().string();
  {
    const auto first = DeviceLock::try_take(gpu, "moetune tune", path);
    ASSERT_TRUE(first);
    EXPECT_FALSE(DeviceLock::try_take(gpu, "moetune ci", path));
    EXPECT_EQ(DeviceLock::holder_of(gpu, path), fmt::format("moetune tune, process {}", ::getpid()));
    EXPECT_TRUE(DeviceLock::try_take("0000:02:00.0", "moetune ci", path)) << "another GPU";
  }
  EXPECT_TRUE(DeviceLock::try_take(gpu, "moetune ci", path));
}

TEST(DeviceLock, WhoWaitsIsToldForWhomAndGetsItWhenItIsFree) {
  const TemporaryDirectory folder;
  const std::string path = folder.path().string();
  std::optional<DeviceLock> first = DeviceLock::try_take(gpu, "moetune tune", path);
  std::string told;
  int looks = 0;
  const auto second = wait_for_device(
      gpu, "moetune ci", [&](const std::string& other) { told += other; },
      [&] {
        if (++looks == 2) first.reset();  // its holder ends meanwhile
        return false;
      },
      path);
  EXPECT_TRUE(second);
  EXPECT_EQ(told, fmt::format("moetune tune, process {}", ::getpid())) << "once";
  EXPECT_GE(looks, 2);
  EXPECT_FALSE(wait_for_device(
      gpu, "moetune tune", [](const std::string&) {}, [] { return true; }, path))
      << "given up";
}

TEST(DeviceLock, IsEverybodysWhateverTheUmask) {
  const TemporaryDirectory folder;
  const mode_t before = ::umask(0077);
  const auto lock = DeviceLock::try_take(gpu, "moetune tune", folder.path().string());
  ::umask(before);
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(folder / "moetune-gpu-0000:01:00.0.lock").permissions() & fs::perms::mask,
            fs::perms(0666));
}

TEST(DeviceLock, FollowsNoLink) {
  const TemporaryDirectory folder;
  std::filesystem::create_symlink(folder / "elsewhere", folder / "moetune-gpu-0000:01:00.0.lock");
  EXPECT_NE(message_of<std::runtime_error>([&] {
              DeviceLock::try_take(gpu, "x", folder.path().string());
            }).find("no lock can be made"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere"));
}

}  // namespace
}  // namespace moetune
