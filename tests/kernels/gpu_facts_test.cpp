// What is measured on a GPU, and what is said where there is none.
#include "kernels/gpu_facts.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/device.h"
#include "kernels/gpu_power.h"
#include "tests/support/message_of.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

TEST(GpuFacts, WithoutAGpuSayWhatIsMissing) {
  if (Cuda::count() > 0) GTEST_SKIP() << "there is a GPU";
  for (const std::string& words : {message_of<std::runtime_error>([] { measure_gpu(0); }),
                                   message_of<std::runtime_error>([] { gpu_bus_id(0); })})
    EXPECT_TRUE(has_text(words, "no NVIDIA driver") || has_text(words, "no GPU can be used: ")) << words;
}

TEST(GpuFacts, AreMeasured) {
  if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  const GpuFacts facts = measure_gpu(0);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_EQ(facts.count, Cuda::count());
  EXPECT_GE(facts.multiprocessors, 1);
  EXPECT_GT(facts.memory_bytes, std::int64_t{1} << 30);
  EXPECT_LE(facts.free_bytes, facts.memory_bytes);
  EXPECT_GT(facts.read_gb_per_s, 100.0);
  EXPECT_LT(facts.read_gb_per_s, 20000.0);
  EXPECT_GT(facts.link_gb_per_s, 1.0);
  EXPECT_LT(facts.link_gb_per_s, facts.read_gb_per_s);
  const GpuFacts again = measure_gpu(0);
  EXPECT_NEAR(again.read_gb_per_s / facts.read_gb_per_s, 1.0, 0.1);
}

TEST(GpuFacts, TheAddressIsOneThatNvmlKnows) {
  if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  const GpuPower power(gpu_bus_id(0));
  if (power.driver_version().empty()) GTEST_SKIP() << "no NVML here: " << power.problem();
  EXPECT_FALSE(has_text(power.problem(), "does not know GPU")) << power.problem();
}

}  // namespace
}  // namespace moetune

#endif
