// What `tune --save` says of the profile that it replaces.
#include "tuner/commands/profile_registry.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tuner/launch_profile.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

LaunchProfile profile_of(const std::string& measured_at, std::int64_t passes) {
  LaunchProfile profile;
  profile.model = "tiny-moe";
  profile.gate = "int8";
  profile.objectives = {"tpot_ms"};
  profile.workload.name = "chat";
  profile.hardware.build = "0.1.0 abc";
  profile.measured_at = measured_at;
  profile.final_passes = passes;
  return profile;
}

class ProfileRegistry : public testing::Test {
 protected:
  ProfileRegistry() {
    fs::create_directories(root_.path() / "models");
    fs::create_directories(root_.path() / "profiles");
    ::setenv("MOETUNE_DATA", root_.path().c_str(), 1);
  }
  ~ProfileRegistry() override { ::unsetenv("MOETUNE_DATA"); }

  static std::string remark(const LaunchProfile& profile) {
    return save_profile(to_json_value(profile), 0).remark;
  }

  TemporaryDirectory root_;
  const std::string file_ = root_ / "profiles/cpu/tiny-moe/chat.json";
  const LaunchProfile first_ = profile_of("2026-11-29T16:46:39Z", 20);
};

TEST_F(ProfileRegistry, TheFirstOneReplacesNothing) {
  const SavedProfile saved = save_profile(to_json_value(first_), 0);
  EXPECT_EQ(saved.file, file_);
  EXPECT_EQ(saved.remark, "");
  EXPECT_EQ(remark(first_), "") << "the same once more";
}

TEST_F(ProfileRegistry, NamesWhatItReplaces) {
  remark(first_);
  EXPECT_EQ(remark(profile_of("2026-11-30T08:00:00Z", 20)),
            file_ + ": replaces the profile that was measured 2026-11-29T16:46:39Z by build 0.1.0 abc");
  EXPECT_EQ(load_launch_profile(file_).measured_at, "2026-11-30T08:00:00Z");
}

TEST_F(ProfileRegistry, SaysThatTheNewOneIsWeakerEvidence) {
  remark(first_);
  EXPECT_TRUE(has_text(remark(profile_of("2026-11-30T08:00:00Z", 6)),
                       "; the new one is weaker evidence: 6 rounds of a final round in place of 20"));
  EXPECT_TRUE(has_text(remark(profile_of("2026-11-30T09:00:00Z", 0)),
                       "; the new one is weaker evidence: no final round in place of 6"));
  EXPECT_EQ(remark(profile_of("2026-11-30T10:00:00Z", 1)).find("weaker"), std::string::npos);
}

TEST_F(ProfileRegistry, WhatCannotBeReadIsReplacedAllTheSame) {
  remark(first_);
  for (const char* const broken : {"{\"schema_version\": 1", "{}"}) {
    write_bytes(file_, broken);
    EXPECT_TRUE(has_text(remark(first_), file_ + ": replaces what was there and could not be read ("));
    EXPECT_EQ(load_launch_profile(file_).measured_at, first_.measured_at);
  }
}

}  // namespace
}  // namespace moetune
