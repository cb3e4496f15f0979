// The engine target on a GPU: running out of its memory is an outcome, after which the same process goes on.
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/buffer.h"
#include "kernels/device_memory.h"
#include "tests/support/cache_folder.h"
#include "tests/support/source_dir.h"
#include "tuner/targets/engine_target.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

// Takes what the card has left, down to less than the smallest model needs.
std::vector<Buffer> all_but_little(Device& card) {
  constexpr std::int64_t kSmallest = std::int64_t{1} << 20;
  std::vector<Buffer> taken;
  for (std::int64_t bytes = free_device_bytes(card); bytes >= kSmallest; bytes /= 2) {
    try {
      while (true) taken.emplace_back(card, bytes);
    } catch (const std::bad_alloc&) {
    }
  }
  return taken;
}

TEST(CudaTarget, OutOfMemoryIsAnOutcome) {
  if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  const testing::CacheFolder cache;
  EngineTargetSetup setup;
  setup.model_directory = source_dir() + "/engine/models/tiny-moe";
  setup.workload = {.name = "short", .prompt_tokens = 24, .output_tokens = 9};
  setup.device = DeviceKind::cuda;
  setup.latency_seconds = 0.1;
  setup.timing_only = true;
  EngineTarget target(setup, {});
  const Configuration configuration{{{"expert_cache", "1"}}};
  Device card = Cuda(0);
  {
    const std::vector<Buffer> taken = all_but_little(card);
    const TargetResult result = target.measure(configuration, 1, {});
    EXPECT_EQ(result.outcome, Outcome::out_of_memory) << result.reason;
    EXPECT_NE(result.reason, "");
  }
  const TargetResult result = target.measure(configuration, 1, {});
  EXPECT_EQ(result.outcome, Outcome::ok) << result.reason;

  // Larger than the plan allows is said before anything is taken.
  setup.device_memory_bytes = 1 << 20;
  EngineTarget small(setup, {});
  EXPECT_EQ(small.measure(configuration, 1, {}).outcome, Outcome::infeasible);
}

}  // namespace
}  // namespace moetune

#endif
