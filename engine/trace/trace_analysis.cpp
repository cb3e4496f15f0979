#include "engine/trace/trace_analysis.h"

#include <algorithm>
#include <cmath>

#include "engine/expert_predictor.h"
#include "engine/trace/grouped_cache.h"
#include "engine/trace/learned_predictor.h"
#include "engine/trace/replay.h"
#include "kernels/parallel_for.h"

namespace moetune {
namespace {

constexpr int kPoints = 12;                          // sizes for which every policy is replayed
constexpr double kJudgedShares[] = {0.4, 0.6, 0.8};  // of all experts, for predictors and groups
constexpr int kGroupSize = 4;
constexpr double kHotShare = 0.25;

SlotDirectory::Shape shape_of(const RoutingTrace& trace, int slots, CachePolicy policy) {
  return {.layers = trace.layers, .experts = trace.experts, .slots = slots, .policy = policy};
}

int slots_of(const RoutingTrace& trace, double share) {
  return std::clamp(static_cast<int>(std::lround(share * all_experts(trace))), fewest_slots(trace),
                    all_experts(trace));
}

// Sizes are replayed side by side: nothing is shared but the trace.
std::vector<CachePoint> points_of(const RoutingTrace& trace, const LruCurve& lru, ParallelPool& pool) {
  const StaticCurve fixed = static_curve(trace);
  const int least = fewest_slots(trace);
  const int all = all_experts(trace);
  std::vector<CachePoint> points;
  for (int i = 0; i < kPoints; ++i) {
    const int slots = least + static_cast<int>(std::int64_t{all - least} * i / (kPoints - 1));
    if (points.empty() || points.back().slots != slots) points.push_back({.slots = slots});
  }
  pool.parallel_for(std::ssize(points), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      CachePoint& point = points[static_cast<std::size_t>(i)];
      const auto hit_rate = [&](CachePolicy policy) {
        return replay(trace, shape_of(trace, point.slots, policy)).hit_rate();
      };
      point.share = static_cast<double>(point.slots) / all;
      point.lru = lru_hit_rate(trace, lru, point.slots);
      point.layer_lru = hit_rate(CachePolicy::layer_lru);
      point.lfu = hit_rate(CachePolicy::lfu);
      point.pinned = hit_rate(CachePolicy::pinned);
      point.fixed = fixed.hit_rate(point.slots);
    }
  });
  return points;
}

PredictorScore score_of(const std::string& name, bool runs_in_engine, const SlotDirectory::Shape& shape,
                        const ReplayCounts& counts, std::int64_t memory_bytes) {
  return {.name = name,
          .runs_in_engine = runs_in_engine,
          .share = static_cast<double>(shape.slots) / (shape.layers * shape.experts),
          .recall = counts.recall(),
          .hit_rate = counts.hit_rate(),
          .misses = counts.misses,
          .ahead = counts.ahead,
          .ahead_in_vain = counts.ahead_in_vain,
          .memory_bytes = memory_bytes};
}

// What a predictor of the engine knows after the trace.
std::int64_t memory_after(Prefetch kind, const RoutingTrace& trace) {
  ExpertPredictor predictor(kind, trace.layers, trace.experts);
  std::vector<std::int32_t> before;
  for_each_layer_step(trace, [&](const LayerStep& step) {
    if (step.layer == 0) before.clear();
    predictor.learn(step.layer, {.ids = step.ids, .token_ids = step.token_ids, .k = trace.k},
                    {.ids = before, .token_ids = step.token_ids, .k = trace.k});
    before.assign(step.ids.begin(), step.ids.end());
  });
  return predictor.bytes();
}

std::vector<PredictorScore> predictors_of(const RoutingTrace& learn_from, const RoutingTrace& judged,
                                          ParallelPool& pool) {
  struct Named {
    const char* name;
    Prefetch kind;
  };
  constexpr Named kinds[] = {{"none", Prefetch::none},
                             {"repeat", Prefetch::repeat},
                             {"next_gate", Prefetch::next_gate},
                             {"markov", Prefetch::markov},
                             {"table", Prefetch::table}};
  const LearnedPredictor learned = LearnedPredictor::train(learn_from);
  constexpr auto per_share = std::ssize(kinds) + 1;  // the learned one last
  std::vector<PredictorScore> scores(std::size(kJudgedShares) * per_share);
  pool.parallel_for(std::ssize(scores), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const SlotDirectory::Shape shape =
          shape_of(judged, slots_of(judged, kJudgedShares[i / per_share]), CachePolicy::layer_lru);
      PredictorScore& score = scores[static_cast<std::size_t>(i)];
      if (i % per_share == per_share - 1) {
        score = score_of("learned", false, shape, replay(judged, shape, learned.guesser()), learned.bytes());
        continue;
      }
      const auto& [name, kind] = kinds[i % per_share];
      score = score_of(name, true, shape, replay(judged, shape, kind),
                       kind == Prefetch::none ? 0 : memory_after(kind, judged));
    }
  });
  return scores;
}

std::vector<GroupedScore> groups_of(const RoutingTrace& learn_from, const RoutingTrace& judged) {
  const int group_size = std::min(kGroupSize, judged.experts);
  const auto groups = group_experts(learn_from, group_size);
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, judged.decode_tokens()));
  std::vector<GroupedScore> scores;
  for (const double share : kJudgedShares) {
    const int slots = slots_of(judged, share);
    const ReplayCounts single = replay(judged, shape_of(judged, slots, CachePolicy::layer_lru));
    const GroupedCounts grouped = replay_groups(judged, groups, group_size, slots);
    scores.push_back({.group_size = group_size,
                      .share = static_cast<double>(slots) / all_experts(judged),
                      .hit_rate = grouped.hit_rate(),
                      .layer_lru_hit_rate = single.hit_rate(),
                      .loads_per_token = static_cast<double>(grouped.loads) / tokens,
                      .layer_lru_loads_per_token = static_cast<double>(single.misses) / tokens,
                      .in_vain = grouped.loads == 0 ? 0.0
                                                    : static_cast<double>(grouped.loads_in_vain) /
                                                          static_cast<double>(grouped.loads)});
  }
  return scores;
}

}  // namespace

int fewest_slots(const RoutingTrace& trace) { return trace.layers * trace.k; }
int all_experts(const RoutingTrace& trace) { return trace.layers * trace.experts; }

double lru_hit_rate(const RoutingTrace& trace, const LruCurve& curve, int slots) {
  if (slots >= curve.exact_from) return curve.hit_rate(slots);
  return replay(trace, shape_of(trace, slots, CachePolicy::lru)).hit_rate();
}

TraceAnalysis analyse_trace(const RoutingTrace& trace) {
  // Neighbouring sequences may be of one text: taking turns gives both halves of every kind.
  const RoutingTrace learn_from = trace.part([](std::int32_t sequence) { return sequence % 2 == 0; });
  const RoutingTrace judged = trace.part([](std::int32_t sequence) { return sequence % 2 == 1; });
  TraceAnalysis analysis;
  analysis.statistics = trace_statistics(trace);
  analysis.lru = lru_curve(trace);
  ParallelPool pool(usable_cores());
  analysis.points = points_of(trace, analysis.lru, pool);
  analysis.hot_share = kHotShare;
  if (learn_from.tokens() == 0 || judged.tokens() == 0) return analysis;  // one sequence: nothing to judge on
  analysis.predictors = predictors_of(learn_from, judged, pool);
  analysis.grouped = groups_of(learn_from, judged);
  analysis.hot = hot_sets(learn_from, judged, kHotShare);
  return analysis;
}

}  // namespace moetune
