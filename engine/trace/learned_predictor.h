// A small predictor learned from a trace: for every layer a linear score of each expert from what the layer
// before has just chosen and what this layer chose for the token before, trained by logistic regression.
// Replayed only; the engine has none. A guess may prefetch, never replace the router. Start at train().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/trace/replay.h"
#include "engine/trace/routing_trace.h"

namespace moetune {

class LearnedPredictor {
 public:
  // Deterministic: the trace's tokens in order, a fixed number of times.
  static LearnedPredictor train(const RoutingTrace& trace);

  // Scores of one token's experts: (experts). before, last: ids, -1 or absent where nothing is known.
  std::vector<float> scores(int layer, std::span<const std::int32_t> before,
                            std::span<const std::int32_t> last) const;

  // Guesses the k likeliest per token. Knows one sequence at a time.
  Guesser guesser() const;

  std::int64_t bytes() const { return static_cast<std::int64_t>(weights_.size() * sizeof(float)); }

 private:
  LearnedPredictor(int layers, int experts, int k);
  // The weights from one input to every expert; inputs: `experts` of the layer before, as many of this layer,
  // one constant.
  std::span<float> row(int layer, std::size_t input);
  std::span<const float> row(int layer, std::size_t input) const;

  int layers_;
  int experts_;
  int k_;
  std::vector<float> weights_;  // (layers, 2 experts + 1, experts)
};

}  // namespace moetune
