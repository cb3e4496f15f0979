// The rules in their plainest form, on the same arrays as the kernel. Start at run().
#include "kernels/slot_lookup.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

#include "kernels/slot_rules.h"

namespace moetune {
namespace {

class LookUp {
 public:
  explicit LookUp(const LookUpSlots& op) : op_(op), state_(op.of.state), rules_(op.of, op.fetch) {}

  void ask() {
    std::vector<bool> seen(static_cast<std::size_t>(rules_.experts()), false);
    std::int32_t* pending = op_.pending.i32();
    pending[0] = 0;
    state_.step_began[op_.of.layer] = state_.clock[0];
    const std::int64_t misses_before = state_.counters->misses;
    for (std::int64_t token = 0; token < op_.ids.dim(0); ++token)
      for (std::int64_t choice = 0; choice < op_.ids.dim(1); ++choice) {
        const std::int32_t expert = op_.ids.i32()[token * op_.ids.stride(0) + choice];
        assert(expert < rules_.experts());
        if (expert < 0) continue;
        ++state_.counters->lookups;
        if (seen[static_cast<std::size_t>(expert)]) continue;
        seen[static_cast<std::size_t>(expert)] = true;
        pending[++pending[0]] = expert;
        count(rules_.key(expert));
        ++(rules_.slot_of(rules_.key(expert)) >= 0 ? state_.counters->hits : state_.counters->misses);
      }
    state_.counters->missing_layers += state_.counters->misses > misses_before ? 1 : 0;
    settle_ahead();
  }

  void serve_wave() {
    const std::int64_t wave = ++state_.clock[1];
    std::fill_n(op_.wave_table.i32(), rules_.experts(), -1);
    std::int32_t* pending = op_.pending.i32();
    std::vector<std::int32_t> missing;
    for (const std::int32_t expert : std::vector(pending + 1, pending + 1 + pending[0]))
      if (const std::int32_t slot = rules_.slot_of(rules_.key(expert)); slot >= 0) {
        state_.held_in_wave[slot] = wave;
        op_.wave_table.i32()[expert] = slot;
      } else {
        missing.push_back(expert);
      }
    pending[0] = 0;
    for (const std::int32_t expert : missing)
      if (const std::int32_t slot = rules_.place(expert, wave); slot >= 0)
        op_.wave_table.i32()[expert] = slot;
      else
        pending[++pending[0]] = expert;
    state_.counters->fetched += rules_.placed();
  }

 private:
  void count(std::int32_t asked) const {
    state_.last_asked[asked] = ++state_.clock[0];
    ++state_.times_asked.i32()[asked];
    if (op_.of.rule.keeps_hot) update_hot(asked);
  }

  // Of what was brought in ahead: was it asked for?
  void settle_ahead() const {
    std::int32_t* ahead = state_.ahead.i32();
    for (std::int32_t i = 0; i < ahead[0]; ++i)
      if (ahead[1] != op_.of.layer ||
          state_.last_asked[rules_.key(ahead[2 + i])] <= state_.step_began[op_.of.layer])
        ++state_.counters->ahead_in_vain;
    ahead[0] = 0;
  }

  // One that was just asked for is the only one that can become hot, the coldest the only one that can
  // leave; equals stay outside.
  void update_hot(std::int32_t asked) const {
    std::int32_t* is_hot = state_.is_hot.i32();
    if (is_hot[asked] != 0 || op_.most_hot == 0) return;
    std::int32_t* hot = state_.hot.i32() + op_.of.layer * rules_.experts();
    std::int32_t& count = state_.hot_count.i32()[op_.of.layer];
    const std::int32_t* times = state_.times_asked.i32();
    if (count < op_.most_hot) {
      hot[count++] = asked;
    } else {
      std::int32_t* coldest = std::min_element(hot, hot + count, [&](std::int32_t a, std::int32_t b) {
        return std::tuple(times[a], state_.last_asked[a]) < std::tuple(times[b], state_.last_asked[b]);
      });
      if (times[*coldest] >= times[asked]) return;
      is_hot[*coldest] = 0;
      *coldest = asked;
    }
    is_hot[asked] = 1;
  }

  const LookUpSlots& op_;
  const SlotState& state_;
  SlotRules rules_;
};

}  // namespace

void run(Cpu&, const LookUpSlots& op) {
  LookUp look_up(op);
  if (op.asks) look_up.ask();
  look_up.serve_wave();
}

}  // namespace moetune
