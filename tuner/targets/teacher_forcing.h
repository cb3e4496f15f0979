// Feeds a group of windows through an engine token by token, as decoding would, and shows what came out at
// every scored position. The one loop behind reference, accuracy and the run-to-run floor. Start at
// force_group().
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/engine.h"
#include "tuner/targets/scored_text.h"

namespace moetune {

// A scored position: window `slot` of the group, `position` 0 .. scored - 1 within it.
struct ScoredPosition {
  int slot = 0;
  std::int64_t position = 0;

  // Number of the position within its group: slot-major.
  std::int64_t index(const ScoredText& text) const { return slot * text.scored() + position; }
};

struct ForcedPassSinks {
  std::function<void(const ScoredPosition&, std::span<const float> logits)> logits;
  // Chosen experts and their weights, best first, of one MoE layer; may be empty.
  std::function<void(const ScoredPosition&, int layer, std::span<const std::int32_t> ids,
                     std::span<const float> weights)>
      routing;
};

// What an engine needs to step `side_by_side` windows at once.
EngineLimits forcing_limits(const ScoredText& text, int side_by_side);

// Runs one window alone, in sequence 0.
void force_window(Engine& engine, const ScoredText& text, int group, int slot,
                  const std::function<void(const ScoredPosition&, std::span<const float> logits)>& on_logits);

// Runs all windows of the group, engine.limits().sequences of them side by side.
void force_group(Engine& engine, const ScoredText& text, int group, const ForcedPassSinks& sinks);

}  // namespace moetune
