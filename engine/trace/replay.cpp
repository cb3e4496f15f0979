#include "engine/trace/replay.h"

#include <algorithm>
#include <numeric>

#include "engine/expert_predictor.h"

namespace moetune {
namespace {

// ExpertCache without memory: the same calls in the same order.
class CacheReplay {
 public:
  explicit CacheReplay(const SlotDirectory::Shape& shape) : directory_(shape) {}

  std::size_t fair_share(int layer) const {
    return static_cast<std::size_t>(directory_.slots_of_layer(layer).count);
  }

  void fetch_ahead(int layer, const std::vector<std::int32_t>& guesses, ReplayCounts& counts) {
    counts.guesses += std::ssize(guesses);
    guessed_layer_ = layer;
    guesses_ = guesses;
    const std::span<const std::int32_t> table = directory_.table(layer);
    for (const std::int32_t expert : guesses)
      if (table[static_cast<std::size_t>(expert)] >= 0) directory_.hold(layer, expert);
    for (const std::int32_t expert : guesses) {
      if (table[static_cast<std::size_t>(expert)] >= 0) continue;
      if (!directory_.place(layer, expert)) break;
      ahead_.push_back(expert);
    }
    counts.ahead += std::ssize(ahead_);
  }

  void ask(const LayerStep& step, ReplayCounts& counts) {
    std::vector<std::int32_t> pending = distinct_experts(step.ids);
    bool misses = false;
    for (const std::int32_t expert : pending) {
      const bool hit = directory_.look_up(step.layer, expert);
      misses = misses || !hit;
      if (step.decodes) ++(hit ? counts.hits : counts.misses);
    }
    counts.missing_layers += step.decodes && misses ? 1 : 0;
    settle(step, pending, counts);
    const std::span<const std::int32_t> table = directory_.table(step.layer);
    while (!pending.empty()) {  // a wave each
      directory_.release_all();
      std::vector<std::int32_t> postponed;
      for (const std::int32_t expert : pending)
        if (table[static_cast<std::size_t>(expert)] >= 0) directory_.hold(step.layer, expert);
      for (const std::int32_t expert : pending)
        if (table[static_cast<std::size_t>(expert)] < 0 && !directory_.place(step.layer, expert))
          postponed.push_back(expert);
      pending.swap(postponed);
    }
  }
  // Between steps nothing is in use.
  void end_step() { directory_.release_all(); }

 private:
  void settle(const LayerStep& step, const std::vector<std::int32_t>& asked, ReplayCounts& counts) {
    if (guessed_layer_ != step.layer) return;
    const auto is_asked = [&](std::int32_t expert) {
      return std::ranges::find(asked, expert) != asked.end();
    };
    counts.ahead_in_vain += std::ssize(ahead_) - std::ranges::count_if(ahead_, is_asked);
    counts.right_guesses += std::ranges::count_if(guesses_, is_asked);
    if (!guesses_.empty()) counts.wanted += std::ssize(asked);
    ahead_.clear();
    guesses_.clear();
    guessed_layer_ = -1;
  }

  SlotDirectory directory_;
  int guessed_layer_ = -1;
  std::vector<std::int32_t> guesses_;
  std::vector<std::int32_t> ahead_;
};

}  // namespace

ReplayCounts replay(const RoutingTrace& trace, const SlotDirectory::Shape& shape, const Guesser& guesser) {
  ReplayCounts counts;
  CacheReplay cache(shape);
  std::vector<std::int32_t> ids_before;
  LayerStep before;
  for_each_layer_step(trace, [&](const LayerStep& step) {
    if (step.layer == 0) cache.end_step();
    const LayerStep* known = step.layer == 0 ? nullptr : &before;
    // A prompt is learned from and not guessed for, as in the engine.
    if (guesser.guess && step.is_one_each)
      cache.fetch_ahead(step.layer, guesser.guess(step, known, cache.fair_share(step.layer)), counts);
    cache.ask(step, counts);
    if (guesser.learn) guesser.learn(step, known);
    ids_before.assign(step.ids.begin(), step.ids.end());
    before = step;
    before.ids = ids_before;
    before.foreseen = {};
  });
  return counts;
}

// The engine's predictors, fed with the trace as the engine feeds them.
ReplayCounts replay(const RoutingTrace& trace, const SlotDirectory::Shape& shape, Prefetch prefetch) {
  if (prefetch == Prefetch::none) return replay(trace, shape, Guesser());
  ExpertPredictor predictor(prefetch, trace.layers, trace.experts);
  const auto choice_of = [&](const LayerStep* step, const LayerStep& now) {
    return LayerChoice{.ids = step == nullptr ? std::span<const std::int32_t>() : step->ids,
                       .token_ids = now.token_ids,
                       .k = trace.k};
  };
  return replay(trace, shape,
                Guesser{.guess =
                            [&](const LayerStep& step, const LayerStep* before, std::size_t most) {
                              if (prefetch != Prefetch::next_gate)
                                return predictor.predict(step.layer, choice_of(before, step), most);
                              return before == nullptr ? std::vector<std::int32_t>()
                                                       : by_rank(step.foreseen, trace.k, most);
                            },
                        .learn =
                            [&](const LayerStep& step, const LayerStep* before) {
                              predictor.learn(step.layer, choice_of(&step, step), choice_of(before, step));
                            }});
}

StaticCurve static_curve(const RoutingTrace& trace) {
  const std::size_t all = static_cast<std::size_t>(trace.layers) * static_cast<std::size_t>(trace.experts);
  std::vector<std::int64_t> asked(all, 0);
  StaticCurve curve;
  for_each_layer_step(trace, [&](const LayerStep& step) {
    if (!step.decodes) return;
    for (const std::int32_t expert : distinct_experts(step.ids)) {
      ++asked[static_cast<std::size_t>(step.layer) * static_cast<std::size_t>(trace.experts) +
              static_cast<std::size_t>(expert)];
      ++curve.lookups;
    }
  });
  curve.hottest_first.resize(all);
  std::iota(curve.hottest_first.begin(), curve.hottest_first.end(), 0);
  std::ranges::stable_sort(curve.hottest_first, std::greater<>(),
                           [&](std::int64_t key) { return asked[static_cast<std::size_t>(key)]; });
  curve.hits.assign(all + 1, 0);
  for (std::size_t slots = 0; slots < all; ++slots)
    curve.hits[slots + 1] = curve.hits[slots] + asked[static_cast<std::size_t>(curve.hottest_first[slots])];
  return curve;
}

}  // namespace moetune
