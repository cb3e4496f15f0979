#include "engine/trace/stack_distances.h"

#include <algorithm>
#include <numeric>

namespace moetune {
namespace {

// Experts by the time they were asked for last: how many were asked for after a given time? A Fenwick tree
// over times.
class RecencyStack {
 public:
  RecencyStack(std::size_t keys, std::size_t requests) : last_(keys, 0), sums_(requests + 1, 0) {}

  // How many experts were asked for after this one; -1: it never was.
  std::int64_t distance(std::size_t key) const {
    return last_[key] == 0 ? -1 : in_stack_ - up_to(last_[key]);
  }
  void touch(std::size_t key) {
    if (last_[key] != 0) add(last_[key], -1);
    in_stack_ += last_[key] == 0 ? 1 : 0;
    last_[key] = ++clock_;
    add(clock_, 1);
  }

 private:
  void add(std::size_t time, std::int64_t change) {
    for (; time < sums_.size(); time += time & (~time + 1)) sums_[time] += change;
  }
  std::int64_t up_to(std::size_t time) const {
    std::int64_t sum = 0;
    for (; time > 0; time -= time & (~time + 1)) sum += sums_[time];
    return sum;
  }

  std::vector<std::size_t> last_;  // 0: never
  std::vector<std::int64_t> sums_;
  std::size_t clock_ = 0;
  std::int64_t in_stack_ = 0;
};

// hits by distance -> hits by slots: a cache hits everything nearer than its size.
void add_up(LruCurve& curve) {
  std::partial_sum(curve.hits.begin(), curve.hits.end(), curve.hits.begin());
  std::partial_sum(curve.whole.begin(), curve.whole.end(), curve.whole.begin());
}

// Cuts the layers into caches: cache_of(layer) its cache, key_of(layer, expert) its key there.
template <class CacheOf, class KeyOf>
std::vector<LruCurve> curves(const RoutingTrace& trace, std::size_t caches, std::size_t keys,
                             const CacheOf& cache_of, const KeyOf& key_of) {
  std::vector<LruCurve> curves(caches);
  for (LruCurve& curve : curves) {
    curve.hits.assign(keys + 1, 0);
    curve.whole.assign(keys + 1, 0);
  }
  std::vector<RecencyStack> stacks(caches, RecencyStack(keys, trace.expert_ids.size()));
  for_each_layer_step(trace, [&](const LayerStep& step) {
    LruCurve& curve = curves[cache_of(step.layer)];
    RecencyStack& stack = stacks[cache_of(step.layer)];
    const std::vector<std::int32_t> asked = distinct_experts(step.ids);
    curve.exact_from = std::max(curve.exact_from, static_cast<int>(asked.size()));
    if (step.decodes) {
      curve.lookups += std::ssize(asked);
      ++curve.layer_steps;
      std::int64_t farthest = -1;
      bool is_new = false;  // one of them was never asked for before
      for (const std::int32_t expert : asked) {
        const std::int64_t distance = stack.distance(key_of(step.layer, expert));
        is_new = is_new || distance < 0;
        farthest = std::max(farthest, distance);
        if (distance >= 0) ++curve.hits[static_cast<std::size_t>(distance) + 1];
      }
      if (!is_new) ++curve.whole[static_cast<std::size_t>(farthest) + 1];
    }
    for (const std::int32_t expert : asked) stack.touch(key_of(step.layer, expert));
  });
  for (LruCurve& curve : curves) add_up(curve);
  return curves;
}

}  // namespace

double LruCurve::hit_rate(std::int64_t slots) const {
  return lookups == 0
             ? 1.0
             : static_cast<double>(hits[static_cast<std::size_t>(slots)]) / static_cast<double>(lookups);
}

LruCurve lru_curve(const RoutingTrace& trace) {
  const auto experts = static_cast<std::size_t>(trace.experts);
  return curves(
             trace, 1, static_cast<std::size_t>(trace.layers) * experts, [](int) { return std::size_t{0}; },
             [&](int layer, std::int32_t expert) {
               return static_cast<std::size_t>(layer) * experts + static_cast<std::size_t>(expert);
             })
      .front();
}

std::vector<LruCurve> layer_lru_curves(const RoutingTrace& trace) {
  return curves(
      trace, static_cast<std::size_t>(trace.layers), static_cast<std::size_t>(trace.experts),
      [](int layer) { return static_cast<std::size_t>(layer); },
      [](int, std::int32_t expert) { return static_cast<std::size_t>(expert); });
}

}  // namespace moetune
