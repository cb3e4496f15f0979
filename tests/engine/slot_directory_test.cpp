// Cache policies against a model of them that is as plain as it can be: a list of resident experts and the
// whole history.
#include "engine/slot_directory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/knobs.h"

namespace moetune {
namespace {

using Key = std::pair<int, int>;  // layer, expert
using Step = std::vector<Key>;    // distinct experts of one layer

// Keeps the history of all requests and decides by searching through it.
class PlainCache {
 public:
  explicit PlainCache(const SlotDirectory::Shape& shape) : shape_(shape) {}

  // True for a hit. All of a step's experts count as asked for before any of them is placed.
  void ask(const Step& step) {
    for (const Key& key : step) {
      history_.push_back(key);
      if (shape_.policy == CachePolicy::pinned) warm_up(key);
    }
    for (const Key& key : step) {
      if (resident_.contains(key)) continue;
      if (is_full(key.first)) resident_.erase(victim(step));
      resident_.insert(key);
    }
  }
  const std::set<Key>& resident() const { return resident_; }

 private:
  int share(int layer) const {
    return shape_.slots / shape_.layers + (layer < shape_.slots % shape_.layers ? 1 : 0);
  }
  long in_layer(const std::set<Key>& keys, int layer) const {
    return std::ranges::count_if(keys, [&](const Key& key) { return key.first == layer; });
  }
  long uses(const Key& key) const { return std::ranges::count(history_, key); }
  // Half of a layer's share in hot experts; one enters when it was used more often than the coldest of them.
  void warm_up(const Key& key) {
    const int most = share(key.first) / 2;
    if (hot_.contains(key) || most == 0) return;
    if (in_layer(hot_, key.first) >= most) {
      std::vector<Key> rivals;
      for (const Key& hot : hot_)
        if (hot.first == key.first) rivals.push_back(hot);
      const Key coldest = *std::ranges::min_element(
          rivals, {}, [&](const Key& hot) { return std::pair(uses(hot), last_use(hot)); });
      if (uses(coldest) >= uses(key)) return;
      hot_.erase(coldest);
    }
    hot_.insert(key);
  }
  bool is_full(int layer) const {
    if (shape_.policy == CachePolicy::layer_lru) return in_layer(resident_, layer) >= share(layer);
    return static_cast<int>(resident_.size()) >= shape_.slots;
  }
  long last_use(const Key& key) const {
    return history_.rend() - std::find(history_.rbegin(), history_.rend(), key);
  }
  Key victim(const Step& step) const {
    std::vector<Key> candidates;
    for (const Key& key : resident_) {
      const bool in_use = std::ranges::find(step, key) != step.end();
      const bool other_share = shape_.policy == CachePolicy::layer_lru && key.first != step.front().first;
      if (!in_use && !other_share && !hot_.contains(key)) candidates.push_back(key);
    }
    return *std::ranges::min_element(candidates, {}, [&](const Key& key) {
      return std::pair(shape_.policy == CachePolicy::lfu ? uses(key) : 0, last_use(key));
    });
  }

  SlotDirectory::Shape shape_;
  std::vector<Key> history_;
  std::set<Key> resident_;
  std::set<Key> hot_;
};

// The rules of slot_directory.h, looking at every slot for each of them.
class SearchedSlots {
 public:
  explicit SearchedSlots(const SlotDirectory::Shape& shape)
      : shape_(shape), shares_(shape), slots_(static_cast<std::size_t>(shape.slots)) {}

  void look_up(int layer, int expert) {
    const Key asked{layer, expert};
    last_[asked] = ++clock_;
    ++times_[asked];
    const int most = static_cast<int>(shares_.slots_of_layer(layer).count) / 2;
    if (shape_.policy != CachePolicy::pinned || hot_.contains(asked) || most == 0) return;
    std::vector<Key> rivals;
    std::ranges::copy_if(hot_, std::back_inserter(rivals),
                         [&](const Key& key) { return key.first == layer; });
    if (std::ssize(rivals) >= most) {
      const Key coldest = *std::ranges::min_element(
          rivals, {}, [&](const Key& key) { return std::pair(times_[key], last_[key]); });
      if (times_[coldest] >= times_[asked]) return;
      hot_.erase(coldest);
    }
    hot_.insert(asked);
  }
  void release_all() { ++wave_; }
  void hold(int layer, int expert) { slot_with(layer, expert).held_in = wave_; }
  void remove(int layer, int expert) { slot_with(layer, expert) = {}; }
  int place(int layer, int expert) {
    const bool has_own = shape_.policy == CachePolicy::layer_lru;
    const Slice range = has_own ? shares_.slots_of_layer(layer) : Slice{0, shape_.slots};
    int best = -1;
    std::pair<long, long> best_rank;
    for (auto index = static_cast<int>(range.begin); index < range.begin + range.count; ++index) {
      const Slot& slot = slots_[static_cast<std::size_t>(index)];
      if (!slot.is_taken) {
        best = index;
        break;
      }
      const std::pair rank(shape_.policy == CachePolicy::lfu ? times_[slot.key] : 0, last_[slot.key]);
      if (slot.held_in == wave_ || hot_.contains(slot.key) || (best >= 0 && best_rank <= rank)) continue;
      best = index;
      best_rank = rank;
    }
    if (best >= 0) slots_[static_cast<std::size_t>(best)] = {true, {layer, expert}, wave_};
    return best;
  }

 private:
  struct Slot {
    bool is_taken = false;
    Key key;
    int held_in = 0;
  };
  Slot& slot_with(int layer, int expert) {
    return *std::ranges::find_if(
        slots_, [&](const Slot& slot) { return slot.is_taken && slot.key == Key(layer, expert); });
  }

  SlotDirectory::Shape shape_;
  SlotDirectory shares_;
  std::vector<Slot> slots_;
  std::map<Key, long> last_;
  std::map<Key, long> times_;
  std::set<Key> hot_;
  long clock_ = 0;
  int wave_ = 1;
};

// What the expert cache does with a step that fits: look all up, hold the resident, place the others.
void ask(SlotDirectory& directory, const Step& step) {
  for (const auto& [layer, expert] : step) directory.look_up(layer, expert);
  for (const auto& [layer, expert] : step)
    if (directory.table(layer)[static_cast<std::size_t>(expert)] >= 0) directory.hold(layer, expert);
  for (const auto& [layer, expert] : step)
    if (directory.table(layer)[static_cast<std::size_t>(expert)] < 0) {
      ASSERT_TRUE(directory.place(layer, expert).has_value());
    }
  directory.release_all();
}

std::set<Key> resident_of(const SlotDirectory& directory) {
  std::set<Key> resident;
  std::set<int> slots;
  for (int layer = 0; layer < directory.shape().layers; ++layer)
    for (int expert = 0; expert < directory.shape().experts; ++expert)
      if (const int slot = directory.table(layer)[static_cast<std::size_t>(expert)]; slot >= 0) {
        resident.insert({layer, expert});
        EXPECT_TRUE(slots.insert(slot).second) << "slot " << slot << " holds two experts";
        EXPECT_LT(slot, directory.shape().slots);
      }
  return resident;
}

// Tokens go through the layers in order; low experts are asked for more often than high ones.
std::vector<Step> invented_trace(int layers, int experts, int k, int tokens, unsigned seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> skewed(2.5 / experts);
  std::vector<Step> trace;
  for (int token = 0; token < tokens; ++token)
    for (int layer = 0; layer < layers; ++layer) {
      Step step;
      while (static_cast<int>(step.size()) < k) {
        const Key key{layer, (skewed(random) + 3 * layer) % experts};
        if (std::ranges::find(step, key) == step.end()) step.push_back(key);
      }
      trace.push_back(step);
    }
  return trace;
}

class Policies : public ::testing::TestWithParam<CachePolicy> {};

TEST_P(Policies, KeepWhatThePlainModelKeeps) {
  const int layers = 3;
  const int experts = 11;
  const int k = 2;
  for (const int slots : {layers * k, 10, 17, 32, layers * experts})
    for (const unsigned seed : {1U, 2U, 3U}) {
      const SlotDirectory::Shape shape{
          .layers = layers, .experts = experts, .slots = slots, .policy = GetParam()};
      SlotDirectory directory(shape);
      PlainCache plain(shape);
      int step_number = 0;
      for (const Step& step : invented_trace(layers, experts, k, 120, seed)) {
        ask(directory, step);
        plain.ask(step);
        ASSERT_EQ(resident_of(directory), plain.resident())
            << slots << " slots, seed " << seed << ", step " << step_number;
        ++step_number;
      }
    }
}

TEST_P(Policies, NeverMoveAnExpertInUse) {
  const SlotDirectory::Shape shape{.layers = 2, .experts = 8, .slots = 6, .policy = GetParam()};
  SlotDirectory directory(shape);
  std::vector<int> held;
  for (int expert = 0; expert < 8; ++expert) {
    directory.look_up(0, expert);
    if (const auto placement = directory.place(0, expert)) {
      EXPECT_FALSE(placement->evicted) << "expert " << expert;
      held.push_back(expert);
    }
  }
  EXPECT_EQ(held.size(), GetParam() == CachePolicy::layer_lru ? 3U : 6U);
  for (const int expert : held) EXPECT_GE(directory.table(0)[static_cast<std::size_t>(expert)], 0);
  directory.release_all();
  directory.look_up(0, 7);
  EXPECT_TRUE(directory.place(0, 7)->evicted);
}

TEST_P(Policies, ForgetARemovedExpert) {
  SlotDirectory directory({.layers = 1, .experts = 4, .slots = 2, .policy = GetParam()});
  directory.look_up(0, 3);
  const int slot = directory.place(0, 3)->slot;
  directory.remove(0, 3);
  EXPECT_FALSE(directory.look_up(0, 3));
  EXPECT_EQ(directory.place(0, 3)->slot, slot);
}

// Who leaves, by a look at every slot: slot for slot what the queue answers, whoever is held, taken out
// again, or brought in without having been asked for.
TEST_P(Policies, TakeTheSlotThatASearchThroughAllFinds) {
  const int layers = 3;
  const int experts = 16;
  for (const int slots : {6, 13, 30}) {
    const SlotDirectory::Shape shape{
        .layers = layers, .experts = experts, .slots = slots, .policy = GetParam()};
    SlotDirectory directory(shape);
    SearchedSlots searched(shape);
    std::mt19937 random(7);
    const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    for (int action = 0; action < 6000; ++action) {
      const int layer = below(layers);
      const int expert = std::min(below(experts), below(experts));
      const bool is_resident = directory.table(layer)[static_cast<std::size_t>(expert)] >= 0;
      switch (below(8)) {
        case 0:
          directory.release_all();
          searched.release_all();
          break;
        case 1:
          if (is_resident) directory.hold(layer, expert), searched.hold(layer, expert);
          break;
        case 2:
          if (is_resident && below(4) == 0) directory.remove(layer, expert), searched.remove(layer, expert);
          break;
        case 3:
        case 4:
          directory.look_up(layer, expert);
          searched.look_up(layer, expert);
          break;
        default:
          if (is_resident) break;
          const auto placed = directory.place(layer, expert);
          ASSERT_EQ(placed ? placed->slot : -1, searched.place(layer, expert))
              << slots << " slots, action " << action;
      }
    }
  }
}

std::string policy_name(const ::testing::TestParamInfo<CachePolicy>& policy) {
  EngineOptions options;
  options.cache_policy = policy.param;
  return knob_named("cache_policy").get(options);
}
INSTANTIATE_TEST_SUITE_P(All, Policies,
                         ::testing::Values(CachePolicy::lru, CachePolicy::lfu, CachePolicy::layer_lru,
                                           CachePolicy::pinned),
                         policy_name);

// One sweep over all layers is what a token is. Every layer alternates between two experts: eight in all, of
// which a global lru of seven slots always throws out the one that comes next.
TEST(LayerLru, SurvivesASweepThatEmptiesAGlobalLru) {
  const auto hits = [](CachePolicy policy) {
    SlotDirectory directory({.layers = 4, .experts = 4, .slots = 7, .policy = policy});
    int count = 0;
    for (int token = 0; token < 10; ++token)
      for (int layer = 0; layer < 4; ++layer) {
        count += directory.table(layer)[static_cast<std::size_t>(token % 2)] >= 0 ? 1 : 0;
        ask(directory, {{layer, token % 2}});
      }
    return count;
  };
  EXPECT_EQ(hits(CachePolicy::lru), 0);
  EXPECT_EQ(hits(CachePolicy::layer_lru),
            3 * 8);  // layers 0 to 2 have two slots each: only their first two tokens miss
}

TEST(LayerLru, GivesTheFirstLayersWhatDoesNotDivide) {
  const SlotDirectory directory({.layers = 3, .experts = 8, .slots = 11, .policy = CachePolicy::layer_lru});
  EXPECT_EQ(directory.slots_of_layer(0).count, 4);
  EXPECT_EQ(directory.slots_of_layer(1).count, 4);
  EXPECT_EQ(directory.slots_of_layer(2).count, 3);
  EXPECT_EQ(directory.slots_of_layer(2).begin, 8);
}

}  // namespace
}  // namespace moetune
