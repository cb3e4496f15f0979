#include "engine/trace/learned_predictor.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace moetune {
namespace {

constexpr int kPasses = 4;          // over the trace
constexpr float kFirstRate = 0.2F;  // of learning; halved with every pass

// What a layer chose for the token before of the same sequence.
class LastChoice {
 public:
  explicit LastChoice(int layers) : ids_(static_cast<std::size_t>(layers)) {}
  std::span<const std::int32_t> of(int layer) const { return ids_[static_cast<std::size_t>(layer)]; }
  void set(int layer, std::span<const std::int32_t> ids) {
    ids_[static_cast<std::size_t>(layer)].assign(ids.begin(), ids.end());
  }
  void forget() {
    for (auto& list : ids_) list.clear();
  }

 private:
  std::vector<std::vector<std::int32_t>> ids_;
};

}  // namespace

LearnedPredictor::LearnedPredictor(int layers, int experts, int k)
    : layers_(layers),
      experts_(experts),
      k_(k),
      weights_(static_cast<std::size_t>(layers) * (2 * static_cast<std::size_t>(experts) + 1) *
                   static_cast<std::size_t>(experts),
               0.0F) {}

std::span<const float> LearnedPredictor::row(int layer, std::size_t input) const {
  const auto experts = static_cast<std::size_t>(experts_);
  return std::span(weights_).subspan((static_cast<std::size_t>(layer) * (2 * experts + 1) + input) * experts,
                                     experts);
}
std::span<float> LearnedPredictor::row(int layer, std::size_t input) {
  const auto experts = static_cast<std::size_t>(experts_);
  return std::span(weights_).subspan((static_cast<std::size_t>(layer) * (2 * experts + 1) + input) * experts,
                                     experts);
}

std::vector<float> LearnedPredictor::scores(int layer, std::span<const std::int32_t> before,
                                            std::span<const std::int32_t> last) const {
  const auto experts = static_cast<std::size_t>(experts_);
  const std::span<const float> constant = row(layer, 2 * experts);
  std::vector<float> scores(constant.begin(), constant.end());
  const auto add = [&](std::size_t input) {
    const std::span<const float> from = row(layer, input);
    for (std::size_t expert = 0; expert < experts; ++expert) scores[expert] += from[expert];
  };
  for (const std::int32_t id : before)
    if (id >= 0) add(static_cast<std::size_t>(id));
  for (const std::int32_t id : last)
    if (id >= 0) add(experts + static_cast<std::size_t>(id));
  return scores;
}

LearnedPredictor LearnedPredictor::train(const RoutingTrace& trace) {
  LearnedPredictor predictor(trace.layers, trace.experts, trace.k);
  const auto experts = static_cast<std::size_t>(trace.experts);
  std::vector<float> change(experts);
  float rate = kFirstRate;
  for (int pass = 0; pass < kPasses; ++pass, rate /= 2.0F) {
    LastChoice last(trace.layers);
    std::int32_t sequence = -1;
    for (std::int64_t token = 0; token < trace.tokens(); ++token) {
      if (trace.sequences[static_cast<std::size_t>(token)] != sequence) last.forget();
      sequence = trace.sequences[static_cast<std::size_t>(token)];
      for (int layer = 0; layer < trace.layers; ++layer) {
        const auto before = layer == 0 ? std::span<const std::int32_t>() : trace.ids(token, layer - 1);
        const auto truth = trace.ids(token, layer);
        const std::vector<float> scores = predictor.scores(layer, before, last.of(layer));
        // Inputs are as many as experts per token, twice: the step is shared among them.
        const float step = rate / static_cast<float>(2 * trace.k + 1);
        for (std::size_t expert = 0; expert < experts; ++expert) {
          const bool was_chosen = std::ranges::find(truth, static_cast<std::int32_t>(expert)) != truth.end();
          change[expert] = step * ((was_chosen ? 1.0F : 0.0F) - 1.0F / (1.0F + std::exp(-scores[expert])));
        }
        const auto learn = [&](std::size_t input) {
          const std::span<float> to = predictor.row(layer, input);
          for (std::size_t expert = 0; expert < experts; ++expert) to[expert] += change[expert];
        };
        for (const std::int32_t id : before)
          if (id >= 0) learn(static_cast<std::size_t>(id));
        for (const std::int32_t id : last.of(layer))
          if (id >= 0) learn(experts + static_cast<std::size_t>(id));
        learn(2 * experts);
        last.set(layer, truth);
      }
    }
  }
  return predictor;
}

Guesser LearnedPredictor::guesser() const {
  const auto last = std::make_shared<LastChoice>(layers_);
  return {.guess =
              [this, last](const LayerStep& step, const LayerStep* before, std::size_t most) {
                const std::vector<float> found =
                    scores(step.layer, before == nullptr ? std::span<const std::int32_t>() : before->ids,
                           last->of(step.layer));
                std::vector<std::int32_t> order(found.size());
                std::iota(order.begin(), order.end(), 0);
                std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t id) {
                  return found[static_cast<std::size_t>(id)];
                });
                order.resize(std::min({order.size(), most, static_cast<std::size_t>(k_)}));
                return order;
              },
          // A prompt's last token is what stands before the answer's first.
          .learn =
              [this, last](const LayerStep& step, const LayerStep*) {
                last->set(step.layer, step.ids.last(static_cast<std::size_t>(k_)));
              }};
}

}  // namespace moetune
