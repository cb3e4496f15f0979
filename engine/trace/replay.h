// A trace through the expert cache's own book-keeping, without weights: what the engine would count. Every
// step goes through SlotDirectory and, with prefetch, through ExpertPredictor, exactly as ExpertCache and
// Prefetcher do; a test holds the counts against theirs. Start at replay().
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/slot_directory.h"
#include "engine/trace/routing_trace.h"

namespace moetune {

struct ReplayCounts {
  std::int64_t hits = 0;            // of decode steps: distinct experts found resident
  std::int64_t misses = 0;          // and not
  std::int64_t missing_layers = 0;  // layers of decode steps that missed any
  std::int64_t ahead = 0;           // fetched before they were asked for
  std::int64_t ahead_in_vain = 0;   // and not asked for by the step they were fetched for
  std::int64_t guesses = 0;         // experts guessed, resident ones too
  std::int64_t right_guesses = 0;
  std::int64_t wanted = 0;  // experts of the layer steps that were guessed for

  double hit_rate() const {
    return hits + misses == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
  // Share of the experts of a guessed layer step that were among the guesses.
  double recall() const {
    return wanted == 0 ? 0.0 : static_cast<double>(right_guesses) / static_cast<double>(wanted);
  }
};

// Somebody who guesses. guess: the experts of step.layer, most likely first, at most `most`; it may look at
// the step's tokens and at what their gate foresaw, not at its ids. before: the step's choice in the layer
// before; null for the first layer. learn: every layer of every step once it is known, in order; may be
// empty.
struct Guesser {
  std::function<std::vector<std::int32_t>(const LayerStep& step, const LayerStep* before, std::size_t most)>
      guess;
  std::function<void(const LayerStep& step, const LayerStep* before)> learn;
};

ReplayCounts replay(const RoutingTrace& trace, const SlotDirectory::Shape& shape,
                    Prefetch prefetch = Prefetch::none);
ReplayCounts replay(const RoutingTrace& trace, const SlotDirectory::Shape& shape, const Guesser& guesser);

// The best that a set of experts that never changes could do, chosen with hindsight: decode hits by slots,
// and the experts in the order in which they enter it (layer * experts + expert).
struct StaticCurve {
  std::vector<std::int64_t> hits;  // by slots, 0 .. layers * experts
  std::int64_t lookups = 0;
  std::vector<std::int64_t> hottest_first;

  double hit_rate(std::int64_t slots) const {
    return lookups == 0
               ? 1.0
               : static_cast<double>(hits[static_cast<std::size_t>(slots)]) / static_cast<double>(lookups);
  }
};
StaticCurve static_curve(const RoutingTrace& trace);

}  // namespace moetune
