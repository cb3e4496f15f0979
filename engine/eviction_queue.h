// Slots of an expert cache in the order in which they leave: who was asked for least, by the policy's count
// and clock. Both only grow. So nobody reports a request here: a slot that comes to the front under an old
// rank is put back under today's, and one that comes to the front under today's is the first indeed. Start at
// take_first().
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace moetune {

class EvictionQueue {
 public:
  struct Rank {
    std::uint64_t times_asked = 0;  // where the policy counts
    std::uint64_t last_asked = 0;
    auto operator<=>(const Rank&) const = default;
  };
  // What becomes of the slot in front.
  enum class Turn : std::uint8_t {
    leaves,  // taken
    waits,   // in use for the moment: keeps its place
    stays    // whatever its rank: no longer queued, until it is pushed again
  };

  void push(std::int32_t slot, const Rank& rank) {
    entries_.push_back({rank, slot});
    std::ranges::push_heap(entries_, std::greater<>());
  }
  void erase(std::int32_t slot) {
    std::erase_if(entries_, [slot](const Entry& entry) { return entry.slot == slot; });
    std::ranges::make_heap(entries_, std::greater<>());
  }

  // The slot of the lowest rank that leaves, the lower number among equals. rank_of(slot): today's;
  // turn_of(slot). Empty: none leaves. Amortised O(log n), and as much again per slot that waits in front of
  // it.
  template <class RankOf, class TurnOf>
  std::optional<std::int32_t> take_first(const RankOf& rank_of, const TurnOf& turn_of) {
    std::optional<std::int32_t> taken;
    waiting_.clear();
    while (!taken && !entries_.empty()) {
      const Entry first = pop();
      if (const Rank today = rank_of(first.slot); today != first.rank) {
        push(first.slot, today);
        continue;
      }
      const Turn turn = turn_of(first.slot);
      if (turn == Turn::leaves) taken = first.slot;
      if (turn == Turn::waits) waiting_.push_back(first);
    }
    for (const Entry& entry : waiting_) push(entry.slot, entry.rank);
    return taken;
  }

 private:
  struct Entry {
    Rank rank;
    std::int32_t slot = 0;
    auto operator<=>(const Entry&) const = default;
  };
  Entry pop() {
    std::ranges::pop_heap(entries_, std::greater<>());
    const Entry first = entries_.back();
    entries_.pop_back();
    return first;
  }

  std::vector<Entry> entries_;  // a heap, the lowest rank on top
  std::vector<Entry> waiting_;  // of one take_first()
};

}  // namespace moetune
