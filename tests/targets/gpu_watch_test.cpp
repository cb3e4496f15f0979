#include "tuner/targets/gpu_watch.h"

#include <atomic>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(GpuWatch, MeansAreOverTheLooksThatHadAnAnswer) {
  std::atomic<int> looks{0};
  GpuWatch watch([&] {
    GpusSeen seen;
    seen.gpus.resize(1);
    const int look = ++looks;
    if (look <= 2) seen.gpus[0].busy_percent = 40 * look;  // 40, 80, then nothing
    if (look == 2) seen.gpus[0].link_gb_per_s = 3.0;
    return seen;
  });
  while (looks < 4) std::this_thread::yield();
  const GpuUse use = watch.finish();
  EXPECT_GE(use.looks, 4);
  EXPECT_EQ(use.busy_percent, 60.0);
  EXPECT_EQ(use.link_gb_per_s, 3.0);
}

TEST(GpuWatch, WithoutADriverItLooksOnce) {
  GpuWatch watch([] { return GpusSeen{}; });
  const GpuUse use = watch.finish();
  EXPECT_EQ(use.looks, 1);
  EXPECT_FALSE(use.busy_percent);
  EXPECT_FALSE(use.link_gb_per_s);
}

TEST(GpuWatch, AsksAtLeastOnce) {
  GpuWatch watch([] {
    GpusSeen seen;
    seen.gpus.resize(1);
    seen.gpus[0].busy_percent = 7;
    return seen;
  });
  EXPECT_EQ(watch.finish().busy_percent, 7.0);
}

}  // namespace
}  // namespace moetune
