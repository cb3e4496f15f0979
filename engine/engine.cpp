// The facade: what it holds is in engine/engine_impl.h, how a step runs in engine/engine_steps.cpp.
#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/decode_loop.h"
#include "engine/engine_impl.h"
#include "engine/facts/error.h"
#include "engine/option_rules.h"
#include "engine/prefetcher.h"
#include "engine/route_changes.h"
#include "engine/router_profile.h"
#include "kernels/tool_ranges.h"

namespace moetune {
namespace {

void require_acceptable(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits) {
  if (const auto objection = objection_to_options(spec, options, limits))
    throw InputError(objection->knob, objection->found, objection->accepted);
}

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const Checkpoint> source, const EngineOptions& chosen,
                   const EngineLimits& asked)
    : checkpoint(std::move(source)),
      spec(checkpoint->spec()),
      options(chosen),
      asked_limits(asked),
      limits((require_acceptable(spec, chosen, asked), effective_limits(chosen, asked))),
      contexts(limits, spec.vocabulary),
      threads(chosen.tensor_parallel) {
  const ToolRange range("moetune: load");
  const RouteChanges changes = route_changes(checkpoint, options);
  for (int rank = 0; rank < options.tensor_parallel; ++rank)
    ranks.push_back(make_rank(setup(), rank, changes));
  renew_group();
  on_all_ranks([&](Rank& rank) { make_parts(rank, setup()); });
}

void Engine::Impl::renew_group() {
  group = options.tensor_parallel > 1 ? std::make_unique<LocalGroup>(options.tensor_parallel) : nullptr;
  for (const auto& rank : ranks) rank->group = group.get();
}

bool Engine::Impl::reconfigure(const EngineOptions& chosen, const EngineLimits& asked) {
  require_acceptable(spec, chosen, asked);
  if (!keeps_weights(spec, options, chosen)) return false;
  if (TopKRule::of(chosen.top_k_rule).per_layer && !has_layer_experts(spec, chosen)) return false;
  const RouteChanges changes = route_changes(checkpoint, chosen);
  const EngineLimits new_limits = effective_limits(chosen, asked);
  const PartsToRenew parts = parts_to_renew(setup(), {checkpoint, chosen, new_limits}, is_usable);
  is_usable = false;
  options = chosen;
  asked_limits = asked;
  limits = new_limits;
  contexts = ContextLengths(limits, spec.vocabulary);
  on_all_ranks([&](Rank& rank) { renew_parts(rank, setup(), parts, changes); });
  is_usable = true;
  return true;
}

Engine::Engine(std::shared_ptr<const Checkpoint> checkpoint, const EngineOptions& options,
               const EngineLimits& limits)
    : impl_(std::make_unique<Impl>(std::move(checkpoint), options, limits)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

const ModelSpec& Engine::spec() const { return impl_->spec; }
const EngineOptions& Engine::options() const { return impl_->options; }
const EngineLimits& Engine::limits() const { return impl_->limits; }

std::span<const float> Engine::forward(std::span<const StepToken> step) {
  return impl_->forward(step, Phase::prefill);
}

std::span<const float> Engine::prefill(int sequence, std::span<const std::int32_t> prompt) {
  if (prompt.empty()) throw InputError("prompt", "0 tokens", "at least 1");
  const EngineOptions& options = impl_->options;
  const auto chunk =
      static_cast<std::size_t>(options.prefill_chunk > 0 ? options.prefill_chunk : impl_->limits.step_tokens);
  std::span<const float> logits;
  for (std::size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const std::size_t end = std::min(begin + chunk, prompt.size());
    impl_->prompt_step.clear();
    for (std::size_t i = begin; i < end; ++i)
      impl_->prompt_step.push_back({.id = prompt[i],
                                    .sequence = sequence,
                                    .position = static_cast<std::int32_t>(i),
                                    .wants_logits = i + 1 == prompt.size()});
    logits = impl_->forward(impl_->prompt_step, Phase::prefill);
  }
  return logits;
}

Decoded Engine::decode(const DecodeRequest& request) {
  impl_->start_decode(request);
  return impl_->finish_decode();
}
void Engine::start_decode(const DecodeRequest& request) { impl_->start_decode(request); }
Decoded Engine::finish_decode() { return impl_->finish_decode(); }

bool Engine::reconfigure(const EngineOptions& options) {
  return impl_->reconfigure(options, impl_->asked_limits);
}
bool Engine::reconfigure(const EngineOptions& options, const EngineLimits& limits) {
  return impl_->reconfigure(options, limits);
}

RunStats Engine::stats() const { return impl_->stats(); }
void Engine::reset_stats() { impl_->reset_stats(); }

void Engine::drop_expert_cache() {
  for (const auto& rank : impl_->ranks)
    if (rank->cache) {
      rank->cache->clear();
      if (rank->prefetcher) rank->prefetcher->forget();
    }
}

void Engine::prewarm_experts(std::span<const HotExpert> hottest_first) {
  const ModelSpec& spec = impl_->spec;
  std::vector<ExpertCache::HotExpert> hot;
  for (const HotExpert& one : hottest_first) {
    const bool routes =
        one.layer >= 0 && one.layer < spec.layers && spec.moe_layers[static_cast<std::size_t>(one.layer)];
    if (!routes || one.expert < 0 || one.expert >= spec.experts)
      throw InputError("hot experts",
                       "layer " + std::to_string(one.layer) + ", expert " + std::to_string(one.expert),
                       "layers that route, experts 0 .. " + std::to_string(spec.experts - 1));
    const auto row = std::count(spec.moe_layers.begin(), spec.moe_layers.begin() + one.layer, true);
    hot.push_back({static_cast<int>(row), one.expert});
  }
  if (spec.moe_layer_count() == 0) return;
  impl_->on_all_ranks([&](Rank& rank) {
    rank.cache->prewarm(hot);
    if (rank.prefetcher) rank.prefetcher->forget();
  });
}

void Engine::observe_routing(RoutingObserver observer) {
  impl_->ranks.front()->observer = std::move(observer);
}

void Engine::observe_next_gate(GateObserver observer) {
  impl_->ranks.front()->gate_observer = std::move(observer);
}

void Engine::record_steps(StepRecorder* recorder) {
  Rank& first = *impl_->ranks.front();
  if (recorder != nullptr) {
    const bool is_on_gpu = !shares_host_memory(first.device);
    if (is_on_gpu && recorder->labels() == nullptr && recorder->detail() == StepRecorder::Detail::ops)
      throw InputError("recorded steps", "ops of a GPU without labels", "labels, or lengths alone");
    if (!is_on_gpu && recorder->labels() != nullptr)
      throw InputError("recorded steps", "labels on a CPU", "none: its ops are timed by the host");
    if (recorder->labels() != nullptr &&
        std::exchange(first.labelled_by, recorder->labels()->number()) != recorder->labels()->number() &&
        first.decode_loop)
      first.decode_loop->forget_graphs();
  }
  first.recorder = recorder;
  if (first.cache) first.cache->record_loads(recorder);
}

void Engine::inject(const Injection& losses) {
  for (const auto& rank : impl_->ranks) {
    rank->injected = losses;
    if (rank->decode_loop) rank->decode_loop->forget_graphs();
    if (rank->cache) rank->cache->repeat_fetches(losses.expert_reads);
  }
}

void Engine::force_routing(const RoutingSource& source) {
  for (const auto& rank : impl_->ranks) rank->routing_source = source;
}

}  // namespace moetune
