// The rules in their plainest form, on the same arrays as the kernel. Start at run().
#include "kernels/slot_lookup.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

namespace moetune {
namespace {

class LookUp {
 public:
  explicit LookUp(const LookUpSlots& op) : op_(op), experts_(op.state.slot_of.dim(1)) {}

  void ask() {
    std::vector<bool> seen(static_cast<std::size_t>(experts_), false);
    std::int32_t* pending = op_.pending.i32();
    pending[0] = 0;
    for (std::int64_t token = 0; token < op_.ids.dim(0); ++token)
      for (std::int64_t choice = 0; choice < op_.ids.dim(1); ++choice) {
        const std::int32_t expert = op_.ids.i32()[token * op_.ids.stride(0) + choice];
        assert(expert < experts_);
        if (expert < 0) continue;
        ++op_.state.counters->lookups;
        if (seen[static_cast<std::size_t>(expert)]) continue;
        seen[static_cast<std::size_t>(expert)] = true;
        pending[++pending[0]] = expert;
        count(key(expert));
        ++(slot_of(key(expert)) >= 0 ? op_.state.counters->hits : op_.state.counters->misses);
      }
  }

  void serve_wave() {
    wave_ = ++op_.state.clock[1];
    std::fill_n(op_.wave_table.i32(), experts_, -1);
    std::int32_t* pending = op_.pending.i32();
    std::vector<std::int32_t> missing;
    for (const std::int32_t expert : std::vector(pending + 1, pending + 1 + pending[0]))
      if (const std::int32_t slot = slot_of(key(expert)); slot >= 0)
        use(expert, slot);
      else
        missing.push_back(expert);
    pending[0] = 0;
    std::int32_t& fetched = op_.fetch.count.i32()[0];
    fetched = 0;
    for (const std::int32_t expert : missing) {
      const std::int32_t slot = find_slot();
      if (slot < 0) {
        pending[++pending[0]] = expert;
        continue;
      }
      std::int32_t& there = op_.state.expert_in.i32()[slot];
      if (there >= 0) {
        slot_of(there) = -1;
        ++op_.state.counters->evictions;
      }
      there = key(expert);
      slot_of(there) = slot;
      use(expert, slot);
      op_.fetch.sources.i32()[fetched] = op_.first_source + expert;
      op_.fetch.slots.i32()[fetched++] = slot;
    }
    op_.state.counters->fetched += fetched;
  }

 private:
  std::int32_t key(std::int32_t expert) const {
    return static_cast<std::int32_t>(op_.layer * experts_ + expert);
  }
  std::int32_t& slot_of(std::int32_t of) const { return op_.state.slot_of.i32()[of]; }
  void use(std::int32_t expert, std::int32_t slot) const {
    op_.state.held_in_wave[slot] = wave_;
    op_.wave_table.i32()[expert] = slot;
  }

  void count(std::int32_t asked) const {
    op_.state.last_asked[asked] = ++op_.state.clock[0];
    ++op_.state.times_asked.i32()[asked];
    if (op_.rule.keeps_hot) update_hot(asked);
  }

  // One that was just asked for is the only one that can become hot, the coldest the only one that can
  // leave; equals stay outside.
  void update_hot(std::int32_t asked) const {
    std::int32_t* is_hot = op_.state.is_hot.i32();
    if (is_hot[asked] != 0 || op_.most_hot == 0) return;
    std::int32_t* hot = op_.state.hot.i32() + op_.layer * experts_;
    std::int32_t& count = op_.state.hot_count.i32()[op_.layer];
    const std::int32_t* times = op_.state.times_asked.i32();
    if (count < op_.most_hot) {
      hot[count++] = asked;
    } else {
      std::int32_t* coldest = std::min_element(hot, hot + count, [&](std::int32_t a, std::int32_t b) {
        return std::tuple(times[a], op_.state.last_asked[a]) < std::tuple(times[b], op_.state.last_asked[b]);
      });
      if (times[*coldest] >= times[asked]) return;
      is_hot[*coldest] = 0;
      *coldest = asked;
    }
    is_hot[asked] = 1;
  }

  // The first free one, else the first of those that leave before all others; -1: all are in use.
  std::int32_t find_slot() const {
    using Rank = std::tuple<std::int64_t, std::int64_t>;  // leaves before those of a higher rank
    std::int32_t found = -1;
    Rank best;
    for (int slot = op_.first_slot; slot < op_.first_slot + op_.slot_count; ++slot) {
      const std::int32_t there = op_.state.expert_in.i32()[slot];
      if (there < 0) return slot;
      if (op_.state.held_in_wave[slot] == wave_ || op_.state.is_hot.i32()[there] != 0) continue;
      const Rank rank(op_.rule.by_count ? op_.state.times_asked.i32()[there] : 0,
                      op_.state.last_asked[there]);
      if (found >= 0 && best <= rank) continue;
      found = slot;
      best = rank;
    }
    return found;
  }

  const LookUpSlots& op_;
  std::int64_t experts_;
  std::int64_t wave_ = 0;
};

}  // namespace

void run(Cpu&, const LookUpSlots& op) {
  LookUp look_up(op);
  if (op.asks) look_up.ask();
  look_up.serve_wave();
}

}  // namespace moetune
