#include "tuner/commands/trace_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include <fmt/core.h>

#include "engine/checkpoint.h"
#include "engine/option_rules.h"
#include "engine/trace/recorder.h"
#include "engine/trace/replay.h"
#include "engine/trace/trace_analysis.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

constexpr double kCheckedShares[] = {0.25, 0.5, 0.75};  // of the way from the smallest cache to all experts
constexpr double kCalibratedShares[] = {0.0, 0.375, 0.9};
constexpr int kRounds =
    3;  // over all sizes, so that a busy minute of the machine does not fall on one of them

double milliseconds_of(const SequenceRun& run) { return 1e3 * run.seconds / static_cast<double>(run.steps); }

// Runs of one size: counters are the same in every round; of times the shortest counts, as other work only
// adds to them.
class SizeRuns {
 public:
  void add(const std::vector<SequenceRun>& runs) {
    if (runs_.empty()) runs_ = runs;
    for (std::size_t i = 0; i < runs.size(); ++i)
      runs_[i].seconds = std::min(runs_[i].seconds, runs[i].seconds);
  }
  // Per decode step, the median over sequences.
  double step_ms() const {
    std::vector<double> values;
    for (const SequenceRun& run : runs_)
      if (run.steps > 0) values.push_back(milliseconds_of(run));
    return values.empty() ? 0.0 : median(values);
  }
  double hit_rate() const {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    for (const SequenceRun& run : runs_) {
      hits += run.hits;
      misses += run.misses;
    }
    return hits + misses == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }

 private:
  std::vector<SequenceRun> runs_;
};

// The engine's own decoding behind the first tokens of the trace.
double decode_ms(Engine& engine, const RoutingTrace& trace) {
  constexpr int kSteps = 64;
  const int context = engine.limits().context_tokens;
  const int steps = std::max(1, std::min(kSteps, context / 2));
  const auto prompt = static_cast<std::size_t>(std::min<std::int64_t>(context - steps, trace.tokens()));
  engine.prefill(0, std::span(trace.token_ids).first(prompt));
  const StepToken first{
      .id = trace.token_ids.front(), .sequence = 0, .position = static_cast<std::int32_t>(prompt)};
  const Decoded decoded = engine.decode({.first = {&first, 1}, .steps = steps});
  return 1e3 * median(decoded.step_seconds);
}

}  // namespace

StepMisses asked_of_cache(const RoutingTrace& trace, const LruCurve& lru, int slots) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, trace.decode_tokens()));
  if (slots >= lru.exact_from) {
    const auto at = static_cast<std::size_t>(slots);
    return {.layers = static_cast<double>(trace.layers),
            .missing_layers = static_cast<double>(lru.layer_steps - lru.whole[at]) / steps,
            .misses = static_cast<double>(lru.lookups - lru.hits[at]) / steps};
  }
  const ReplayCounts counts = replay(
      trace, {.layers = trace.layers, .experts = trace.experts, .slots = slots, .policy = CachePolicy::lru});
  return {.layers = static_cast<double>(trace.layers),
          .missing_layers = static_cast<double>(counts.missing_layers) / steps,
          .misses = static_cast<double>(counts.misses) / steps};
}

TraceCheck check_trace(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                       const EngineLimits& limits, const RoutingTrace& trace, const LruCurve& lru,
                       const std::function<void(const std::string&)>& say) {
  const ModelSpec& spec = checkpoint->spec();
  const int least = fewest_slots(trace);
  const int all = all_experts(trace);
  EngineOptions chosen = options;
  chosen.cache_policy = CachePolicy::lru;
  chosen.prefetch = Prefetch::none;
  chosen.expert_cache_fraction = 1.0;
  chosen.expert_cache_bytes = all * expert_bytes(spec, chosen);
  std::optional<MissCosts> costs;
  if (options.device == DeviceKind::cuda) {  // before there is an engine: it takes over what is pinned for it
    say("measuring what a miss costs");
    costs = miss_costs_of(spec, options);
  }
  Engine engine(checkpoint, chosen, limits);
  const auto configure = [&](int slots) {
    chosen.expert_cache_bytes = slots * expert_bytes(spec, chosen);
    if (!engine.reconfigure(chosen)) engine = Engine(checkpoint, chosen, limits);
  };
  const auto slots_at = [&](double share) { return least + static_cast<int>(share * (all - least)); };

  TraceCheck check;
  if (costs) check.on_gpu = TraceCheck::OnGpu{.decode_ms = decode_ms(engine, trace), .costs = *costs};
  std::map<int, SizeRuns> runs{{all, {}}};
  for (const double share : kCalibratedShares) check.calibrated_at.push_back(slots_at(share));
  for (const double share : kCheckedShares) check.sizes.push_back({.slots = slots_at(share)});
  for (const int slots : check.calibrated_at) runs[slots];
  for (const CheckedSize& size : check.sizes) runs[size.slots];
  for (int round = 0; round < kRounds; ++round) {
    say(fmt::format("measuring {} sizes, round {} of {}", runs.size(), round + 1, kRounds));
    for (auto& [slots, of_size] : runs) {
      configure(slots);
      of_size.add(run_trace(engine, trace));
    }
  }
  check.resident_ms = runs[all].step_ms();
  std::vector<MeasuredSize> measured;
  for (const int slots : check.calibrated_at)
    measured.push_back({asked_of_cache(trace, lru, slots), runs[slots].step_ms() - check.resident_ms});
  check.costs = fit_step_costs(measured);
  for (CheckedSize& size : check.sizes) {
    size.predicted_hit = lru_hit_rate(trace, lru, size.slots);
    size.measured_hit = runs[size.slots].hit_rate();
    size.predicted_ms = check.step_ms(asked_of_cache(trace, lru, size.slots));
    size.measured_ms = runs[size.slots].step_ms();
  }

  const std::int32_t judged = trace.sequences.back();
  const RoutingTrace one = trace.part([&](std::int32_t sequence) { return sequence == judged; });
  const RoutingTrace others = trace.part([&](std::int32_t sequence) { return sequence != judged; });
  if (others.tokens() == 0) return check;
  check.prewarmed_slots = slots_at(0.5);
  chosen.cache_policy = CachePolicy::layer_lru;
  configure(check.prewarmed_slots);
  const auto misses_of = [](const SequenceRun& run) { return run.prompt_misses + run.misses; };
  check.cold_misses = misses_of(run_trace(engine, one).front());
  check.prewarmed_misses = misses_of(run_trace(engine, one, hottest_experts(spec, others)).front());
  return check;
}

}  // namespace moetune
