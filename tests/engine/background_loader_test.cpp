// Experts brought into their slots beside what a device does: read by a thread, or out of memory that a GPU
// copies from by itself. Behind wait() they are there, batch after batch in the same slots.
#include "engine/background_loader.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "engine/dense_shapes.h"
#include "engine/option_rules.h"
#include "kernels/buffer.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

class BackgroundLoading : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceKind::cpu) {
      device_ = Cpu(1);
      return;
    }
#if MOETUNE_HAS_CUDA
    if (Cuda::count() > 0) device_ = Cuda(0);
#endif
    if (!device_) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
  }

  std::optional<Device> device_;
  CacheFolder folder_;
};

TEST_P(BackgroundLoading, BringsEveryExpertWhereverItComesFrom) {
  const Golden tiny = golden("tiny_moe");
  const ModelSpec& spec = tiny.checkpoint->spec();
  const Shard whole{0, 1};
  Cpu host(2);
  EngineOptions options = default_options(GetParam());
  options.expert_quant = NumberType::int8;
  for (const bool is_in_memory : {false, true}) {
    ExpertStore store(tiny.checkpoint, whole, expert_layout(spec, options, whole));
    if (is_in_memory)
      store.keep_in_memory(*device_, host);
    else
      store.keep_outside(host.pool());
    const std::int64_t bytes = store.layout().bytes;
    constexpr int kSlots = 3;
    const Buffer slots(*device_, kSlots * bytes);
    BackgroundLoader loader(*device_, store);
    std::vector<std::byte> expected(static_cast<std::size_t>(bytes));
    std::vector<std::byte> found(static_cast<std::size_t>(bytes));
    for (int batch = 0; batch < 5; ++batch) {
      std::vector<ExpertStore::Wanted> wanted;
      for (int slot = 0; slot < kSlots; ++slot)
        wanted.push_back({batch % spec.moe_layer_count(), (kSlots * batch + slot) % spec.experts,
                          slots.data() + slot * bytes});
      loader.start(wanted);
      loader.wait();
      for (const ExpertStore::Wanted& one : wanted) {
        store.load(one.moe_layer, one.expert, expected.data());
        copy_to_host(*device_, one.destination, found.data(), bytes);
        EXPECT_EQ(found, expected) << "layer " << one.moe_layer << ", expert " << one.expert
                                   << (is_in_memory ? " from memory" : " from the file");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BackgroundLoading, ::testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& kind) { return kind.param == DeviceKind::cpu ? "cpu" : "cuda"; });

}  // namespace
}  // namespace moetune::testing
