// The lookup on the GPU against the same op on the CPU, wave by wave; what it fetches; and that a graph of
// both needs no host.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/fetch_experts.h"
#include "kernels/fill.h"
#include "kernels/graph.h"
#include "kernels/side_branch.h"
#include "tests/support/gpu.h"
#include "tests/support/slot_trace.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaSlotLookup : public GpuTest {
 protected:
  // More slots than threads of the block.
  static std::vector<CacheCase> large_cases() {
    std::vector<CacheCase> cases = cache_cases();
    for (CacheCase& large : cases) {
      large.layers = 9;
      large.experts = 256;
      large.k = 8;
      large.slots = large.slots * 61;
    }
    return cases;
  }

  void expect_same_decisions(const CacheCase& of, int tokens, int steps) {
    SlotMemory there_memory(gpu(), of.layers, of.experts, of.slots);
    SlotMemory here(cpu_, of.layers, of.experts, of.slots);
    int number = 0;
    for (const std::vector<std::int32_t>& step : with_some_dropped(invented_steps(of, steps, tokens, 3))) {
      const int layer = number++ % of.layers;
      const OwnedTensor chosen = ids({tokens, of.k}, step);
      const Tensor gchosen = there(chosen.view());
      for (bool asks = true;; asks = false) {
        run(gpu(), look_up_op(of, there_memory, gchosen, layer, asks));
        run(cpu_, look_up_op(of, here, chosen.view(), layer, asks));
        const Wave expected = wave_in(cpu_, here);
        ASSERT_EQ(wave_in(gpu(), there_memory), expected)
            << of.name << ", " << of.slots << " slots, " << tokens << " tokens, step " << number;
        if (expected.pending == 0) break;
      }
      const int next = number % of.layers;  // this layer's experts, or the next one's own last ones
      const bool repeats = number % 3 == 0;
      run(gpu(), place_ahead_op(of, there_memory, repeats ? Tensor() : gchosen, next));
      run(cpu_, place_ahead_op(of, here, repeats ? Tensor() : chosen.view(), next));
      ASSERT_EQ(listed_in(gpu(), there_memory.fetch_ahead()), listed_in(cpu_, here.fetch_ahead()))
          << of.name << ", " << of.slots << " slots, " << tokens << " tokens, ahead of step " << number + 1;
    }
    const SlotCounters on_gpu = there_memory.counters(gpu());
    const SlotCounters on_cpu = here.counters(cpu_);
    EXPECT_EQ(on_gpu.lookups, on_cpu.lookups);
    EXPECT_EQ(on_gpu.hits, on_cpu.hits);
    EXPECT_EQ(on_gpu.misses, on_cpu.misses);
    EXPECT_EQ(on_gpu.missing_layers, on_cpu.missing_layers);
    EXPECT_EQ(on_gpu.evictions, on_cpu.evictions);
    EXPECT_EQ(on_gpu.fetched, on_cpu.fetched);
    EXPECT_EQ(on_gpu.ahead, on_cpu.ahead);
    EXPECT_EQ(on_gpu.ahead_in_vain, on_cpu.ahead_in_vain);
  }

  Device cpu_ = cpu();
};

TEST_F(CudaSlotLookup, DecidesWhatTheCpuDecides) {
  std::vector<CacheCase> cases = cache_cases();
  for (const CacheCase& large : large_cases()) cases.push_back(large);
  for (const CacheCase& of : cases)
    for (const int tokens : {1, 2, 40}) expect_same_decisions(of, tokens, 40);
}

// The same in so few steps that a tool that watches every access to shared memory comes to an end.
TEST_F(CudaSlotLookup, DecidesTheSameInAFewSteps) {
  for (const CacheCase& of : cache_cases()) expect_same_decisions(of, 2, 6);
  expect_same_decisions(large_cases().front(), 40, 2);
}

// Blocks of odd sizes: smaller than a piece, a piece and a bit, several pieces.
TEST_F(CudaSlotLookup, FetchesFromPinnedMemoryWithinAGraph) {
  for (const std::int64_t block_bytes : {48, 65536 + 16, 1000000 / 16 * 16}) {
    const CacheCase of{.name = "lru", .rule = {}, .layers = 2, .experts = 6, .slots = 5, .k = 2};
    SlotMemory memory(gpu(), of.layers, of.experts, of.slots);
    const SharedBuffer store(gpu(), block_bytes * of.layers * of.experts);
    for (std::int64_t i = 0; i < store.bytes(); ++i)
      store.data()[i] = static_cast<std::byte>(i / block_bytes * 31 + i % 251);
    const Buffer slots(gpu(), block_bytes * of.slots);
    const OwnedTensor on_gpu(gpu(), NumberType::i32, {1, of.k});
    const auto ops = [&] {
      run(gpu(), look_up_op(of, memory, on_gpu.view(), 1, true));
      run(gpu(), FetchExperts{.store = store.data(),
                              .slots = slots.data(),
                              .block_bytes = block_bytes,
                              .list = memory.fetch(),
                              .counters = memory.state().counters});
    };
    const Graph graph(gpu(), ops);
    std::vector<std::byte> found(static_cast<std::size_t>(slots.bytes()));
    std::int64_t fetched = 0;
    for (const std::vector<std::int32_t>& step :
         std::vector<std::vector<std::int32_t>>{{0, 3}, {3, 5}, {1, 2}, {1, 2}, {4, 0}, {0, 4}}) {
      copy_to_device(gpu(), step.data(), on_gpu.view().data(), 8);
      graph.launch();
      const Wave wave = wave_in(gpu(), memory);
      fetched += std::ssize(wave.fetched) / 2;
      copy_to_host(gpu(), slots.data(), found.data(), slots.bytes());
      for (const std::int32_t expert : step) {
        const std::int32_t slot = wave.table[static_cast<std::size_t>(expert)];
        ASSERT_GE(slot, 0);
        EXPECT_EQ(
            std::memcmp(found.data() + slot * block_bytes, store.data() + (of.experts + expert) * block_bytes,
                        static_cast<std::size_t>(block_bytes)),
            0)
            << "expert " << expert << ", blocks of " << block_bytes;
      }
    }
    const SlotCounters counters = memory.counters(gpu());
    EXPECT_EQ(counters.fetched, fetched);
    EXPECT_GT(counters.fetch_ns, 0);
  }
}

// A layer's guess is fetched beside other ops and is there behind the join, whatever the graph's launches
// find.
TEST_F(CudaSlotLookup, FetchesBesideOtherOpsWithinAGraph) {
  constexpr std::int64_t kBytes = 1 << 20;
  const CacheCase of{
      .name = "layer_lru", .rule = {}, .has_own_slots = true, .layers = 2, .experts = 6, .slots = 8, .k = 2};
  SlotMemory memory(gpu(), of.layers, of.experts, of.slots);
  const SharedBuffer store(gpu(), kBytes * of.layers * of.experts);
  for (std::int64_t i = 0; i < store.bytes(); ++i)
    store.data()[i] = static_cast<std::byte>(i / kBytes * 31 + i % 251);
  const Buffer slots(gpu(), kBytes * of.slots);
  const OwnedTensor chosen(gpu(), NumberType::i32, {of.layers, of.k});
  const OwnedTensor other(gpu(), NumberType::f32, {1000, 1000});
  SideBranch side(gpu());
  const auto fetch = [&](const FetchList& list, SlotCounters* counters) {
    return FetchExperts{.store = store.data(),
                        .slots = slots.data(),
                        .block_bytes = kBytes,
                        .list = list,
                        .counters = counters};
  };
  const auto layer = [&](int number) {
    run(gpu(), look_up_op(of, memory, chosen.view().rows(number, 1), number, true));
    run(gpu(), fetch(memory.fetch(), memory.state().counters));
  };
  const Graph graph(gpu(), [&] {
    layer(0);
    run(gpu(), place_ahead_op(of, memory, chosen.view().rows(0, 1), 1));  // of layer 1 the same numbers
    side.fork();
    run(side.branch(), fetch(memory.fetch_ahead(), nullptr));
    for (int i = 0; i < 5; ++i) run(gpu(), Fill{.x = other.view(), .value = 1.0F});
    side.join();
    layer(1);
  });
  std::vector<std::byte> found(static_cast<std::size_t>(slots.bytes()));
  for (const std::vector<std::int32_t>& step :
       std::vector<std::vector<std::int32_t>>{{0, 3, 0, 3}, {3, 5, 3, 1}, {1, 2, 4, 5}, {4, 0, 4, 0}}) {
    copy_to_device(gpu(), step.data(), chosen.view().data(), 16);
    graph.launch();
    const Wave wave = wave_in(gpu(), memory);
    copy_to_host(gpu(), slots.data(), found.data(), slots.bytes());
    for (const std::int32_t expert : {step[2], step[3]}) {
      const std::int32_t slot = wave.table[static_cast<std::size_t>(expert)];
      ASSERT_GE(slot, 0);
      EXPECT_EQ(
          std::memcmp(found.data() + slot * kBytes, store.data() + (of.experts + expert) * kBytes, kBytes), 0)
          << "expert " << expert;
    }
  }
  const SlotCounters counters = memory.counters(gpu());
  EXPECT_EQ(counters.ahead, 5) << "2, 1, 1 and 1 that were not there";
  EXPECT_EQ(counters.ahead_in_vain, 2) << "5 in the second step, 2 in the third";
}

}  // namespace
}  // namespace moetune

#endif
