// The lookup that a device does by itself against the slot directory: the same experts in the same slots,
// the same ones thrown out, wave by wave.
#include "kernels/slot_lookup.h"

#include <map>

#include <gtest/gtest.h>

#include "engine/expert_predictor.h"
#include "engine/slot_directory.h"
#include "kernels/fetch_experts.h"
#include "tests/support/slot_trace.h"

namespace moetune::testing {
namespace {

CachePolicy policy_of(const CacheCase& of) {
  if (of.has_own_slots) return CachePolicy::layer_lru;
  if (of.rule.by_count) return CachePolicy::lfu;
  return of.rule.keeps_hot ? CachePolicy::pinned : CachePolicy::lru;
}

// A layer's step as ExpertCache takes it to the directory.
class OnTheHost {
 public:
  explicit OnTheHost(const CacheCase& of)
      : of_(of),
        directory_({.layers = of.layers, .experts = of.experts, .slots = of.slots, .policy = policy_of(of)}) {
  }

  void ask(int layer, const std::vector<std::int32_t>& ids) {
    layer_ = layer;
    pending_.clear();
    const std::int64_t misses_before = misses;
    for (const std::int32_t expert : ids) {
      if (expert < 0) continue;
      ++lookups;
      if (std::ranges::find(pending_, expert) != pending_.end()) continue;
      pending_.push_back(expert);
      ++(directory_.look_up(layer, expert) ? hits : misses);
    }
    missing_layers += misses > misses_before ? 1 : 0;
    for (const std::int32_t expert : ahead_)
      in_vain += ahead_layer_ != layer || std::ranges::find(pending_, expert) == pending_.end() ? 1 : 0;
    ahead_.clear();
    last_[layer] = pending_;
  }

  // As ExpertCache::fetch_ahead() does. guesses: (tokens, k), or empty: what the layer asked for last.
  std::vector<std::int32_t> place_ahead(int layer, const std::vector<std::int32_t>& guesses) {
    if (layer == 0) directory_.release_all();  // between steps
    const auto most = static_cast<std::size_t>(of_.share(layer));
    std::vector<std::int32_t> experts = guesses.empty() ? last_[layer] : by_rank(guesses, of_.k, most);
    if (experts.size() > most) experts.resize(most);
    const auto table = directory_.table(layer);
    for (const std::int32_t expert : experts)
      if (table[static_cast<std::size_t>(expert)] >= 0) directory_.hold(layer, expert);
    ahead_layer_ = layer;
    std::vector<std::int32_t> listed;
    for (const std::int32_t expert : experts) {
      if (table[static_cast<std::size_t>(expert)] >= 0) continue;
      const auto placement = directory_.place(layer, expert);
      if (!placement) break;
      evictions += placement->evicted ? 1 : 0;
      ahead_.push_back(expert);
      listed.push_back(layer * of_.experts + expert);
      listed.push_back(placement->slot);
    }
    ahead += std::ssize(ahead_);
    return listed;
  }

  Wave next_wave() {
    directory_.release_all();
    Wave wave{.table = std::vector<std::int32_t>(static_cast<std::size_t>(of_.experts), -1), .fetched = {}};
    const auto slot_of = [&](std::int32_t expert) {
      return directory_.table(layer_)[static_cast<std::size_t>(expert)];
    };
    std::vector<std::int32_t> missing;
    for (const std::int32_t expert : pending_) {
      if (slot_of(expert) < 0) {
        missing.push_back(expert);
        continue;
      }
      directory_.hold(layer_, expert);
      wave.table[static_cast<std::size_t>(expert)] = slot_of(expert);
    }
    pending_.clear();
    for (const std::int32_t expert : missing) {
      const auto placement = directory_.place(layer_, expert);
      if (!placement) {
        pending_.push_back(expert);
        continue;
      }
      evictions += placement->evicted ? 1 : 0;
      wave.table[static_cast<std::size_t>(expert)] = placement->slot;
      wave.fetched.push_back(layer_ * of_.experts + expert);
      wave.fetched.push_back(placement->slot);
      ++fetched;
    }
    wave.pending = static_cast<std::int32_t>(pending_.size());
    return wave;
  }

  std::int64_t lookups = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t missing_layers = 0;
  std::int64_t evictions = 0;
  std::int64_t fetched = 0;
  std::int64_t ahead = 0;
  std::int64_t in_vain = 0;

 private:
  CacheCase of_;
  SlotDirectory directory_;
  int layer_ = 0;
  std::vector<std::int32_t> pending_;
  std::map<int, std::vector<std::int32_t>> last_;  // by layer
  int ahead_layer_ = 0;
  std::vector<std::int32_t> ahead_;
};

TEST(SlotLookup, DecidesWhatTheDirectoryDecides) {
  Device device = cpu();
  for (const CacheCase& of : cache_cases())
    for (const auto& [tokens, guesses] :
         {std::pair{1, false}, {2, false}, {9, false}, {1, true}, {2, true}, {9, true}}) {
      SlotMemory memory(device, of.layers, of.experts, of.slots);
      OnTheHost host(of);
      int number = 0;
      std::int64_t waves = 0;
      for (const std::vector<std::int32_t>& step : with_some_dropped(invented_steps(of, 60, tokens, 1))) {
        const int layer = number++ % of.layers;
        const OwnedTensor chosen = ids({tokens, of.k}, step);
        host.ask(layer, step);
        for (bool asks = true;; asks = false) {
          run(device, look_up_op(of, memory, chosen.view(), layer, asks));
          const Wave expected = host.next_wave();
          ASSERT_EQ(wave_in(device, memory), expected)
              << of.name << ", " << of.slots << " slots, " << tokens << " tokens, step " << number;
          ++waves;
          if (expected.pending == 0) break;
        }
        if (!guesses) continue;
        const int next = number % of.layers;  // this layer's experts, or the next one's own last ones
        const bool repeats = number % 2 == 0;
        run(device, place_ahead_op(of, memory, repeats ? Tensor() : chosen.view(), next));
        ASSERT_EQ(listed_in(device, memory.fetch_ahead()),
                  host.place_ahead(next, repeats ? std::vector<std::int32_t>() : step))
            << of.name << ", " << of.slots << " slots, " << tokens << " tokens, ahead of step " << number + 1;
      }
      const SlotCounters counters = memory.counters(device);
      EXPECT_EQ(counters.lookups, host.lookups);
      EXPECT_EQ(counters.hits, host.hits);
      EXPECT_EQ(counters.misses, host.misses);
      EXPECT_EQ(counters.missing_layers, host.missing_layers);
      EXPECT_EQ(counters.evictions, host.evictions);
      EXPECT_EQ(counters.fetched, host.fetched);
      EXPECT_EQ(counters.ahead, host.ahead);
      EXPECT_EQ(counters.ahead_in_vain, host.in_vain);
      if (!guesses) {
        EXPECT_EQ(counters.fetched, host.misses);
        EXPECT_EQ(counters.ahead, 0);
      }
      const bool all_fit = of.slots == of.layers * of.experts && !of.rule.keeps_hot;
      if (all_fit) {
        EXPECT_EQ(waves, number) << "one wave each";
      }
      if (of.slots == 6 && tokens == 9) {
        EXPECT_GT(waves, number) << "too many for one wave, and nobody noticed";
      }
    }
}

TEST(SlotLookup, AWaveWithoutExpertsIsEmpty) {
  Device device = cpu();
  const CacheCase of = cache_cases().front();
  SlotMemory memory(device, of.layers, of.experts, of.slots);
  const OwnedTensor chosen = ids({1, 2}, {4, 9});
  run(device, look_up_op(of, memory, chosen.view(), 0, true));
  EXPECT_EQ(wave_in(device, memory).fetched, (std::vector<std::int32_t>{4, 0, 9, 1}));
  run(device, look_up_op(of, memory, chosen.view(), 0, false));
  const Wave nothing{.table = std::vector<std::int32_t>(static_cast<std::size_t>(of.experts), -1),
                     .fetched = {}};
  EXPECT_EQ(wave_in(device, memory), nothing);
  EXPECT_EQ(memory.counters(device).lookups, 2) << "counted once, however many waves";
}

TEST(SlotLookup, ClearedIsAsNew) {
  Device device = cpu();
  const CacheCase of = cache_cases().front();
  SlotMemory memory(device, of.layers, of.experts, of.slots);
  const OwnedTensor chosen = ids({1, 2}, {4, 9});
  run(device, look_up_op(of, memory, chosen.view(), 1, true));
  const Wave first = wave_in(device, memory);
  run(device, look_up_op(of, memory, chosen.view(), 1, true));
  EXPECT_EQ(wave_in(device, memory).fetched.size(), 0U) << "resident by now";
  memory.clear(device);
  run(device, look_up_op(of, memory, chosen.view(), 1, true));
  EXPECT_EQ(wave_in(device, memory), first);
  EXPECT_EQ(memory.counters(device).misses, 4);
  memory.reset_counters(device);
  EXPECT_EQ(memory.counters(device).misses, 0);
}

TEST(FetchExperts, BringsEveryListedBlockToItsSlot) {
  constexpr std::int64_t kBytes = 48;
  Device device = cpu(2);
  const CacheCase of = cache_cases().front();
  SlotMemory memory(device, of.layers, of.experts, of.slots);
  const Buffer store(device, kBytes * of.layers * of.experts);
  const Buffer slots(device, kBytes * of.slots);
  for (std::int64_t i = 0; i < store.bytes(); ++i)
    store.data()[i] = static_cast<std::byte>(i / kBytes * 7 + i % kBytes);
  for (std::int64_t i = 0; i < slots.bytes(); ++i) slots.data()[i] = std::byte{0xEE};
  std::map<std::int32_t, std::int32_t> block_in;  // by slot
  int number = 0;
  for (const std::vector<std::int32_t>& step : invented_steps(of, 8, 1, 2)) {
    const OwnedTensor chosen = ids({1, of.k}, step);
    run(device, look_up_op(of, memory, chosen.view(), number++ % of.layers, true));
    run(device, FetchExperts{.store = store.data(),
                             .slots = slots.data(),
                             .block_bytes = kBytes,
                             .list = memory.fetch(),
                             .counters = memory.state().counters});
    const Wave wave = wave_in(device, memory);
    for (std::size_t i = 0; i < wave.fetched.size(); i += 2) block_in[wave.fetched[i + 1]] = wave.fetched[i];
    for (std::int32_t slot = 0; slot < of.slots; ++slot)
      for (std::int64_t i = 0; i < kBytes; ++i)
        ASSERT_EQ(slots.data()[slot * kBytes + i],
                  block_in.contains(slot) ? store.data()[block_in[slot] * kBytes + i] : std::byte{0xEE})
            << "step " << number << ", slot " << slot;
  }
  EXPECT_EQ(std::ssize(block_in), of.slots);
}

}  // namespace
}  // namespace moetune::testing
