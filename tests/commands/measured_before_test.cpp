// A prediction names the profile that measured the same work on such a box, and no other.
#include "tuner/commands/measured_before.h"

#include <gtest/gtest.h>

#include "tuner/launch_profile.h"

namespace moetune {
namespace {

LaunchProfile on_gpu() {
  LaunchProfile profile;
  profile.model = "tiny-moe";
  profile.model_hash = "0123";
  profile.gate = "int8";
  profile.objectives = {"tpot_ms"};
  profile.workload.name = "chat";
  profile.hardware.device = "A GPU";
  profile.hardware.gpu_count = 1;
  profile.hardware.device_bytes = 95'000'000'000;
  profile.measured_at = "2026-11-29T16:46:39Z";
  return profile;
}

CatalogueBox box(const char* name, const char* device) {
  CatalogueBox made;
  made.name = name;
  made.device = device;
  made.gpu_count = 1;
  made.memory_bytes = 100'000'000'000;
  return made;
}

class MeasuredBefore : public testing::Test {
 protected:
  std::string found(const LaunchProfile& registered, const LaunchProfile& profile, std::size_t which = 0) {
    return measured_before(profile, boxes_[which], boxes_,
                           std::vector<RegisteredProfile>{{"a-gpu/tiny/chat", "chat.json", registered}});
  }

  const std::vector<CatalogueBox> boxes_{box("a", "A GPU"), box("b", "B GPU")};
};

TEST_F(MeasuredBefore, NamesTheSameWorkOnSuchABox) {
  LaunchProfile here = on_gpu();
  here.hardware.device = "cpu";
  here.hardware.gpu_count = 0;
  EXPECT_EQ(found(on_gpu(), here), "a-gpu/tiny/chat");
  EXPECT_EQ(found(on_gpu(), here, 1), "") << "another box";
  here.gate = "lossless";
  EXPECT_EQ(found(on_gpu(), here), "");
  here = on_gpu();
  here.workload.prompt_tokens += 1;
  EXPECT_EQ(found(on_gpu(), here), "");
  here = on_gpu();
  here.model_hash = "4567";
  EXPECT_EQ(found(on_gpu(), here), "");
}

TEST_F(MeasuredBefore, ABoxHeldToLessMemoryIsAnotherOne) {
  LaunchProfile limited = on_gpu();
  limited.hardware.device_bytes = 24'000'000'000;
  EXPECT_EQ(found(limited, on_gpu()), "");
}

}  // namespace
}  // namespace moetune
