// What it takes to bring experts from pinned host memory to a GPU, piece by piece: shared by the benches of
// the expert cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/fetch_experts.h"
#include "kernels/run.h"
#include "kernels/slot_memory.h"
#include "tests/bench/cuda_bench.h"

#if MOETUNE_HAS_CUDA

namespace moetune::bench {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Times of what an expert cache does on a GPU beside its products.
class FetchBench {
 public:
  explicit FetchBench(int runs) : runs_(runs), device_(Cuda(0)), clock_(device_, 16) {}

  // Microseconds between the ends of what lies before and behind body(), by the device's clock.
  double on_device(const std::function<void()>& body) {
    std::vector<double> each;
    auto* ns = reinterpret_cast<std::int64_t*>(clock_.data());
    for (int i = 0; i <= runs_; ++i) {
      run(device_, StartClock{ns});
      body();
      run(device_, StartClock{ns + 1});
      wait_for(device_);
      if (i > 0) each.push_back(1e-3 * static_cast<double>(ns[1] - ns[0]));
    }
    return median(each);
  }
  // A cache of one layer in which every lookup misses: two token's worth of experts take turns in one token's
  // slots.
  struct Missing {
    SlotMemory memory;
    OwnedTensor ids;
    Buffer slots;
    SharedBuffer store;
    std::int64_t bytes;
    std::int64_t count;
  };
  Missing missing(std::int64_t bytes, std::int64_t count) {
    Missing made{SlotMemory(device_, 1, static_cast<int>(2 * count), static_cast<int>(count)),
                 OwnedTensor(device_, NumberType::i32, {1, count}),
                 Buffer(device_, bytes * count),
                 SharedBuffer(device_, bytes * 2 * count),
                 bytes,
                 count};
    return made;
  }
  void pull(const Missing& of) {
    next_first_ = next_first_ == 0 ? of.count : 0;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(of.count));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(next_first_));
    copy_to_device(device_, ids.data(), of.ids.view().data(), of.count * 4);
    look_up(of);
  }
  void look_up(const Missing& of) {
    run(device_, LookUpSlots{.ids = of.ids.view(),
                             .of = {.state = of.memory.state(), .slot_count = static_cast<int>(of.count)},
                             .pending = of.memory.pending(),
                             .wave_table = of.memory.wave_table(),
                             .fetch = of.memory.fetch()});
    run(device_, FetchExperts{.store = of.store.data(),
                              .slots = of.slots.data(),
                              .block_bytes = of.bytes,
                              .list = of.memory.fetch(),
                              .counters = of.memory.state().counters});
  }
  void copy(const Missing& of) {
    for (std::int64_t i = 0; i < of.count; ++i)
      copy_to_device(device_, of.store.data() + i * of.bytes, of.slots.data() + i * of.bytes, of.bytes);
  }

  struct FetchTime {
    double dma_us;   // between the first copy's start and the last one's end, by the device's clock
    double pull_us;  // the kernel's own clock: between its first read and its last, without the lookup
  };
  // `count` experts of `bytes` each, one behind the other.
  FetchTime fetch_time(std::int64_t bytes, std::int64_t count) {
    const Missing all = missing(bytes, count);
    const double dma_us = on_device([&] { copy(all); });
    std::vector<double> pull_us;
    for (int i = 0; i <= runs_; ++i) {
      const std::int64_t before = all.memory.counters(device_).fetch_ns;
      pull(all);
      const std::int64_t after = all.memory.counters(device_).fetch_ns;
      if (i > 0) pull_us.push_back(1e-3 * static_cast<double>(after - before));
    }
    return {dma_us, median(pull_us)};
  }

  // What the lookup and an empty fetch add to a layer of a graph, where all of a token's k experts are there.
  double lookup_us(std::int64_t k) {
    constexpr int kLayers = 48;
    const Missing of = missing(1024, k);
    pull(of);
    const std::vector<int> layers(kLayers);
    return microseconds(device_, layers, runs_, [&](int) { look_up(of); });
  }

  Device& device() { return device_; }
  int runs() const { return runs_; }

 private:
  int runs_;
  Device device_;
  SharedBuffer clock_;
  std::int64_t next_first_ = 0;
};

}  // namespace moetune::bench

#endif  // MOETUNE_HAS_CUDA
