#include "kernels/place_ahead.h"

#include <algorithm>
#include <vector>

#include "kernels/slot_rules.h"

namespace moetune {
namespace {

// The first choice of every token, then the second; each expert once.
std::vector<std::int32_t> by_rank(const Tensor& ids) {
  std::vector<std::int32_t> list;
  for (std::int64_t choice = 0; choice < ids.dim(1); ++choice)
    for (std::int64_t token = 0; token < ids.dim(0); ++token)
      if (const std::int32_t expert = ids.i32()[token * ids.stride(0) + choice];
          expert >= 0 && std::ranges::find(list, expert) == list.end())
        list.push_back(expert);
  return list;
}

// In the order in which they were asked for.
std::vector<std::int32_t> asked_last(const LayerSlots& of) {
  const std::int64_t experts = of.state.slot_of.dim(1);
  const std::int64_t* last = of.state.last_asked + of.layer * experts;
  std::vector<std::int32_t> list;
  for (std::int32_t expert = 0; expert < experts; ++expert)
    if (last[expert] > of.state.step_began[of.layer]) list.push_back(expert);
  std::ranges::sort(list, {}, [&](std::int32_t expert) { return last[expert]; });
  return list;
}

}  // namespace

void run(Cpu&, const PlaceAhead& op) {
  const SlotState& state = op.of.state;
  std::vector<std::int32_t> guesses = op.ids.empty() ? asked_last(op.of) : by_rank(op.ids);
  if (std::ssize(guesses) > op.most) guesses.resize(static_cast<std::size_t>(op.most));
  const SlotRules rules(op.of, op.fetch);
  const std::int64_t wave = state.clock[1] += op.is_between_steps ? 1 : 0;
  for (const std::int32_t expert : guesses)
    if (const std::int32_t slot = rules.slot_of(rules.key(expert)); slot >= 0)
      state.held_in_wave[slot] = wave;
  std::int32_t* ahead = state.ahead.i32();
  state.counters->ahead_in_vain += ahead[0];  // for a layer that did not come, as after a step that failed
  ahead[0] = 0;
  ahead[1] = op.of.layer;
  for (const std::int32_t expert : guesses) {
    if (rules.slot_of(rules.key(expert)) >= 0) continue;
    if (rules.place(expert, wave) < 0) break;  // everything else is in use
    ahead[2 + ahead[0]++] = expert;
  }
  state.counters->ahead += ahead[0];
}

}  // namespace moetune
