#include "tuner/targets/teacher_forcing.h"

#include <algorithm>
#include <vector>

namespace moetune {
namespace {

// Takes the observer off again on every way out: an engine outlives the pass.
class ObservedRouting {
 public:
  ObservedRouting(Engine& engine, Engine::RoutingObserver observer) : engine_(engine) {
    engine_.observe_routing(std::move(observer));
  }
  ~ObservedRouting() { engine_.observe_routing({}); }
  ObservedRouting(const ObservedRouting&) = delete;
  ObservedRouting& operator=(const ObservedRouting&) = delete;

 private:
  Engine& engine_;
};

// Windows [first_slot, first_slot + count) of the group, each in its own sequence.
void force_windows(Engine& engine, const ScoredText& text, int group, int first_slot, int count,
                   const ForcedPassSinks& sinks) {
  std::vector<StepToken> step;
  for (int sequence = 0; sequence < count; ++sequence)
    for (std::int64_t position = 0; position < text.warm_up(); ++position)
      step.push_back({.id = text.window(group, first_slot + sequence)[static_cast<std::size_t>(position)],
                      .sequence = sequence,
                      .position = static_cast<std::int32_t>(position),
                      .wants_logits = false});
  if (!step.empty()) engine.forward(step);

  std::int64_t scored_position = 0;
  Engine::RoutingObserver observer;
  if (sinks.routing)
    observer = [&](int layer, std::span<const std::int32_t> ids, std::span<const float> weights, int tokens,
                   int k) {
      for (int token = 0; token < tokens; ++token) {
        const auto first = static_cast<std::size_t>(token) * static_cast<std::size_t>(k);
        sinks.routing({.slot = first_slot + token, .position = scored_position}, layer,
                      ids.subspan(first, static_cast<std::size_t>(k)),
                      weights.subspan(first, static_cast<std::size_t>(k)));
      }
    };
  const ObservedRouting observed(engine, std::move(observer));
  const auto vocabulary = static_cast<std::size_t>(engine.spec().vocabulary);
  for (; scored_position < text.scored(); ++scored_position) {
    step.clear();
    const std::int64_t position = text.warm_up() + scored_position;
    for (int sequence = 0; sequence < count; ++sequence)
      step.push_back({.id = text.window(group, first_slot + sequence)[static_cast<std::size_t>(position)],
                      .sequence = sequence,
                      .position = static_cast<std::int32_t>(position)});
    const std::span<const float> logits = engine.forward(step);
    for (int sequence = 0; sequence < count; ++sequence)
      sinks.logits({.slot = first_slot + sequence, .position = scored_position},
                   logits.subspan(static_cast<std::size_t>(sequence) * vocabulary, vocabulary));
  }
}

}  // namespace

EngineLimits forcing_limits(const ScoredText& text, int side_by_side) {
  return {.sequences = side_by_side,
          .context_tokens = static_cast<int>(text.context_tokens()),
          .step_tokens = std::max(side_by_side, side_by_side * static_cast<int>(text.warm_up()))};
}

void force_window(
    Engine& engine, const ScoredText& text, int group, int slot,
    const std::function<void(const ScoredPosition&, std::span<const float> logits)>& on_logits) {
  force_windows(engine, text, group, slot, 1, {.logits = on_logits, .routing = {}});
}

void force_group(Engine& engine, const ScoredText& text, int group, const ForcedPassSinks& sinks) {
  const int side_by_side = engine.limits().sequences;
  for (int first = 0; first < ScoredText::windows_per_group; first += side_by_side)
    force_windows(engine, text, group, first, std::min(side_by_side, ScoredText::windows_per_group - first),
                  sinks);
}

}  // namespace moetune
