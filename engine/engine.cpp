// The facade. Start at Engine::Impl: ranks, what they share, and how a step reaches all of them.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/decode_loop.h"
#include "engine/decoder.h"
#include "engine/dense_shapes.h"
#include "engine/facts/error.h"
#include "engine/host_experts.h"
#include "engine/host_router.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/prefetcher.h"
#include "engine/rank.h"
#include "engine/rank_threads.h"
#include "engine/route_changes.h"
#include "engine/router_profile.h"
#include "engine/step_rules.h"
#include "kernels/device_memory.h"
#include "kernels/sample.h"
#include "kernels/tool_ranges.h"

namespace moetune {
namespace {

void require_acceptable(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits) {
  if (const auto objection = objection_to_options(spec, options, limits))
    throw InputError(objection->knob, objection->found, objection->accepted);
}

// The ranks share the processor, at least one thread each.
Cpu rank_cpu(const EngineOptions& options) {
  const int threads = options.cpu_threads > 0 ? options.cpu_threads : usable_cores();
  return Cpu(std::max(1, threads / options.tensor_parallel));
}

Device rank_device([[maybe_unused]] const EngineOptions& options, const Cpu& cpu) {
#if MOETUNE_HAS_CUDA
  if (options.device == DeviceKind::cuda) return Cuda(0);
#endif
  assert(options.device == DeviceKind::cpu);  // objection_to_options() refuses a GPU that this build cannot use
  return cpu;
}

SlotDirectory::Shape cache_shape(const ModelSpec& spec, const EngineOptions& options) {
  return {.layers = spec.moe_layer_count(),
          .experts = spec.experts,
          .slots = static_cast<int>(cache_slots(spec, options)),
          .policy = options.cache_policy};
}

RouteChanges route_changes(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options) {
  const TopKRule rule = TopKRule::of(options.top_k_rule);
  RouteChanges changes{.threshold = rule.threshold, .layer_experts = {}, .reroute_margin = options.reroute_margin};
  if (rule.per_layer) changes.layer_experts = layer_experts(checkpoint, options);
  return changes;
}

bool needs_reload(const ModelSpec& spec, const EngineOptions& from, const EngineOptions& to) {
  return from.device != to.device || from.tensor_parallel != to.tensor_parallel || from.dense_quant != to.dense_quant ||
         expert_type(spec, from) != expert_type(spec, to);
}

}  // namespace

struct Engine::Impl {
  Impl(std::shared_ptr<const Checkpoint> source, const EngineOptions& chosen, const EngineLimits& asked)
      : checkpoint(std::move(source)),
        spec(checkpoint->spec()),
        options(chosen),
        asked_limits(asked),
        limits((require_acceptable(spec, chosen, asked), effective_limits(chosen, asked))),
        contexts(limits, spec.vocabulary),
        threads(chosen.tensor_parallel) {
    const ToolRange range("moetune: load");
    const RouteChanges changes = route_changes(checkpoint, options);  // may need an engine of its own: before this one's memory
    renew_group();
    for (int rank = 0; rank < options.tensor_parallel; ++rank) {
      const Cpu cpu = rank_cpu(options);
      ranks.push_back(std::make_unique<Rank>(cpu, rank_device(options, cpu)));
      ranks.back()->spec = &spec;
      ranks.back()->shard = {rank, options.tensor_parallel};
      ranks.back()->top_k = routing_width(spec, options);
      ranks.back()->changes = changes;
    }
    on_all_ranks([&](Rank& rank) {
      rank.group = group.get();
      rank.weights = load_weights(rank.device, rank.host, *checkpoint, options, rank.shard);
      if (spec.moe_layer_count() > 0)
        rank.store =
            std::make_unique<ExpertStore>(checkpoint, rank.shard, expert_layout(spec, options, rank.shard));
      make_cache(rank);
      make_router(rank);
      make_prefetcher(rank);
      make_kv(rank);
      make_scratch_of(rank);
    });
  }

  // One rank needs no group; a group in which a rank failed is of no further use.
  void renew_group() {
    group = options.tensor_parallel > 1 ? std::make_unique<LocalGroup>(options.tensor_parallel) : nullptr;
    for (const auto& rank : ranks) rank->group = group.get();
  }

  template <class Work>
  void on_all_ranks(const Work& work) {
    std::atomic<bool> failed{false};
    try {
      threads.run([&](int rank) { work(*ranks[static_cast<std::size_t>(rank)]); },
                  [&] {
                    failed = true;
                    group->abort();
                  });
    } catch (...) {
      if (failed) renew_group();
      throw;
    }
  }

  void make_cache(Rank& rank) {
    rank.cache.reset();  // its memory first: the new one may be as large as all there is
    rank.host_experts.reset();
    if (!rank.store) return;
    const ExpertCache::Missing missing = missing_experts(spec, options);
    rank.cache = std::make_unique<ExpertCache>(rank.device, rank.host, *rank.store, cache_shape(spec, options), missing,
                                               rank.store->outside_bytes() <= pinned_limit(spec));
    rank.cache->record_loads(rank.recorder);
    if (missing != ExpertCache::Missing::stays_outside) return;
    const ExpertLayout in_rows =
        ExpertLayout::of(expert_type(spec, options), spec.hidden, rank.shard.expert_inner(spec).count);
    rank.host_experts = std::make_unique<HostExperts>(rank.device, rank.host, checkpoint, rank.shard, in_rows,
                                                      limits.step_tokens, spec.experts_per_token);
  }
  void make_router(Rank& rank) {
    rank.host_router.reset();
    if (options.device == DeviceKind::cuda && options.router == RouterPlacement::cpu)
      rank.host_router = std::make_unique<HostRouter>(rank.device, spec, rank.weights, limits.step_tokens);
  }
  // What prefetches has to be there after the cache, and learns anew with it.
  void make_prefetcher(Rank& rank) {
    rank.prefetcher.reset();
    if (options.prefetch != Prefetch::none && rank.cache && !rank.cache->is_resident())
      rank.prefetcher = std::make_unique<Prefetcher>(
          rank.device, spec, options.prefetch,
          Prefetcher::For{limits.sequences, limits.step_tokens, rank.cache->looks_up_on_device()});
  }
  void make_kv(Rank& rank) {
    rank.kv = {};
    rank.kv = KvCache(rank.device,
                      KvCache::Shape::of(spec, options, rank.shard, limits.sequences, limits.context_tokens));
  }
  void make_scratch_of(Rank& rank) {
    rank.decode_loop.reset();
    rank.scratch = {};
    rank.scratch =
        make_scratch(rank.device, scratch_items(spec, rank.shard, limits.step_tokens, limits.logit_rows));
    reserve_scratch(rank.device, op_scratch_bytes(spec, options, rank.shard, limits.step_tokens));
    if (options.tensor_parallel == 1)
      rank.decode_loop = std::make_unique<DecodeLoop>(rank, limits.sequences, limits.context_tokens);
  }

  std::span<const float> forward(std::span<const StepToken> step, Phase phase);
  void start_decode(const DecodeRequest& request);
  Decoded finish_decode();
  Decoded decode_by_steps(const DecodeRequest& request);
  DecodeLoop::Launch launch_for(const Rank& rank) const;
  void accept_all(const DecodeRequest& request);
  bool reconfigure(const EngineOptions& chosen, const EngineLimits& asked);
  RunStats stats() const;

  std::shared_ptr<const Checkpoint> checkpoint;
  const ModelSpec& spec;
  EngineOptions options;
  EngineLimits asked_limits;
  EngineLimits limits;
  ContextLengths contexts;
  RankThreads threads;
  std::unique_ptr<LocalGroup> group;
  std::vector<std::unique_ptr<Rank>> ranks;
  bool is_usable = true;  // false after a reconfigure() that failed half-way

  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> wanted;
  std::vector<float> logits;
  std::vector<StepToken> prompt_step;
  std::int64_t tokens_run = 0;
  std::int64_t host_waits_before = 0;  // reset_stats()
  bool is_decoding = false;        // between start_decode() and finish_decode()
  std::optional<Decoded> already_decoded;  // the same, where the steps are done already
};

std::span<const float> Engine::Impl::forward(std::span<const StepToken> step, Phase phase) {
  if (!is_usable)
    throw std::runtime_error("the engine was left without memory or files by a failed change of options");
  contexts.accept(step);
  const ToolRange range(phase == Phase::prefill ? "moetune: prefill" : "moetune: decode");
  const StepScope recorded(ranks.front()->recorder, phase, std::ssize(step));
  for (std::vector<std::int32_t>* list : {&ids, &sequences, &positions, &wanted}) list->clear();
  for (const StepToken& token : step) {
    if (token.wants_logits) wanted.push_back(static_cast<std::int32_t>(ids.size()));
    ids.push_back(token.id);
    sequences.push_back(token.sequence);
    positions.push_back(token.position);
  }
  const std::size_t count = wanted.size() * static_cast<std::size_t>(spec.vocabulary);
  if (logits.size() < count) logits.resize(count);
  const StepInputs inputs{ids, sequences, positions, wanted};
  try {
    on_all_ranks([&](Rank& rank) { decode_step(rank, inputs, logits.data()); });
  } catch (...) {  // some layers have written to the KV cache, some have not
    contexts.forget();
    throw;
  }
  tokens_run += static_cast<std::int64_t>(step.size());
  return std::span(logits).first(count);
}

// Checks every step beforehand: on the device nobody looks.
void Engine::Impl::accept_all(const DecodeRequest& request) {
  if (request.steps < 1 || request.steps > limits.context_tokens)
    throw InputError("steps", std::to_string(request.steps), "1 .. " + std::to_string(limits.context_tokens));
  const std::size_t count = request.first.size();
  if (!request.forced.empty() && request.forced.size() != count * static_cast<std::size_t>(request.steps))
    throw InputError("forced tokens", std::to_string(request.forced.size()), "one per step and sequence");
  const ContextLengths before = contexts;
  std::vector<StepToken> step(request.first.begin(), request.first.end());
  try {
    for (int done = 0; done < request.steps; ++done) {
      contexts.accept(step);
      for (std::size_t i = 0; i < count; ++i) {
        ++step[i].position;
        if (!request.forced.empty()) step[i].id = request.forced[static_cast<std::size_t>(done) * count + i];
      }
    }
  } catch (...) {
    contexts = before;
    throw;
  }
}

void Engine::Impl::start_decode(const DecodeRequest& request) {
  if (!is_usable)
    throw std::runtime_error("the engine was left without memory or files by a failed change of options");
  already_decoded.reset();
  Rank& rank = *ranks.front();
  if (!rank.decode_loop) {
    already_decoded = decode_by_steps(request);
    return;
  }
  accept_all(request);
  try {
    rank.decode_loop->start(request, launch_for(rank));
    is_decoding = true;
    tokens_run += request.steps * static_cast<std::int64_t>(request.first.size());
  } catch (...) {
    contexts.forget();
    throw;
  }
}

// A graph holds no question to the host: where it has a part in every layer, a step is several.
DecodeLoop::Launch Engine::Impl::launch_for(const Rank& rank) const {
  using Launch = DecodeLoop::Launch;
  if (!options.cuda_graph) return Launch::ops;
  if (shares_host_memory(rank.device)) return Launch::graph;
  if (rank.observer || rank.routing_source) return Launch::ops;
  return rank.host_must_know() ? Launch::pieces : Launch::graph;
}

Decoded Engine::Impl::finish_decode() {
  if (already_decoded) return std::exchange(already_decoded, std::nullopt).value();
  if (!std::exchange(is_decoding, false)) throw std::logic_error("finish_decode(): no decoding was started");
  try {
    return ranks.front()->decode_loop->finish();
  } catch (...) {
    contexts.forget();
    throw;
  }
}

// Where several ranks share the vocabulary, the host puts the logits together and chooses.
Decoded Engine::Impl::decode_by_steps(const DecodeRequest& request) {
  using Clock = std::chrono::steady_clock;
  const ContextLengths before = contexts;
  accept_all(request);
  contexts = before;
  std::vector<StepToken> step(request.first.begin(), request.first.end());
  const auto rows = static_cast<std::int64_t>(step.size());
  std::vector<std::int32_t> keys(step.size());
  std::vector<std::int32_t> chosen(step.size());
  Decoded decoded;
  for (int done = 0; done < request.steps; ++done) {
    const Clock::time_point start = Clock::now();
    const std::span<const float> rows_of_logits = forward(step, Phase::decode);
    for (std::size_t i = 0; i < step.size(); ++i) keys[i] = ++step[i].position;
    // A tensor is a view that may be written through; Sample only reads its logits.
    run(ranks.front()->host, Sample{.logits = Tensor(const_cast<float*>(rows_of_logits.data()), NumberType::f32,
                                                     {rows, spec.vocabulary}),
                                    .keys = Tensor(keys.data(), NumberType::i32, {rows}),
                                    .ids = Tensor(chosen.data(), NumberType::i32, {rows}),
                                    .temperature = request.sampling.temperature,
                                    .seed = request.sampling.seed});
    decoded.ids.insert(decoded.ids.end(), chosen.begin(), chosen.end());
    for (std::size_t i = 0; i < step.size(); ++i)
      step[i].id = request.forced.empty() ? chosen[i] : request.forced[static_cast<std::size_t>(done) * step.size() + i];
    decoded.step_seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return decoded;
}

bool Engine::Impl::reconfigure(const EngineOptions& chosen, const EngineLimits& asked) {
  require_acceptable(spec, chosen, asked);
  if (needs_reload(spec, options, chosen)) return false;
  if (TopKRule::of(chosen.top_k_rule).per_layer && !has_layer_experts(spec, chosen)) return false;
  const RouteChanges changes = route_changes(checkpoint, chosen);
  const EngineLimits new_limits = effective_limits(chosen, asked);
  const bool other_contexts = new_limits.sequences != limits.sequences || new_limits.context_tokens != limits.context_tokens;
  const bool new_cache = !is_usable || cache_slots(spec, chosen) != cache_slots(spec, options) ||
                         chosen.cache_policy != options.cache_policy || chosen.miss != options.miss;
  const bool new_kv = !is_usable || other_contexts || chosen.kv_type != options.kv_type;
  const bool new_scratch = !is_usable || other_contexts || new_limits.step_tokens != limits.step_tokens ||
                           new_limits.logit_rows != limits.logit_rows;
  const bool new_router = chosen.router != options.router;
  const bool new_threads = chosen.cpu_threads != options.cpu_threads;
  is_usable = false;
  options = chosen;
  asked_limits = asked;
  limits = new_limits;
  contexts = ContextLengths(limits, spec.vocabulary);
  on_all_ranks([&](Rank& rank) {
    rank.top_k = routing_width(spec, options);
    rank.changes = changes;
    rank.gate_ahead.reset();
    if (new_threads) {
      rank.host = rank_cpu(options);
      if (shares_host_memory(rank.device)) rank.device = rank.host;
    }
    if (new_kv) rank.kv = {};  // its memory before that of the new scratch
    if (new_scratch) make_scratch_of(rank);
    if (rank.decode_loop) rank.decode_loop->forget_graphs();  // top_k, cache tables or threads may differ
    if (new_kv) make_kv(rank);
    rank.prefetcher.reset();
    if (new_cache || (new_scratch && rank.host_experts)) make_cache(rank);
    if (new_scratch || new_router) make_router(rank);
    make_prefetcher(rank);
  });
  is_usable = true;
  return true;
}

RunStats Engine::Impl::stats() const {
  RunStats stats;
  stats.tokens = tokens_run;
  const Rank& first = *ranks.front();
  stats.communication_seconds = first.communication_seconds;
  stats.host_waits = host_waits(ranks.front()->device) - host_waits_before;  // first: what follows waits
  if (first.host_router) stats.experts_rerouted = first.host_router->rerouted();
  if (first.cache) {  // all ranks look up, hit and miss alike
    const ExpertCache::Counters counters = first.cache->counters();
    stats.expert_lookups = counters.lookups;
    stats.expert_hits = counters.hits;
    stats.expert_misses = counters.misses;
    stats.expert_missing_layers = counters.missing_layers;
    stats.expert_evictions = counters.evictions;
    stats.experts_rerouted += counters.rerouted;
    stats.expert_load_seconds = counters.load_seconds + (first.host_experts ? first.host_experts->seconds() : 0.0);
    stats.experts_ahead = counters.ahead;
    stats.experts_ahead_in_vain = counters.ahead_in_vain;
  }
  for (const auto& rank : ranks) {
    stats.cpu_threads += rank->host.threads();
    stats.device_bytes += rank->weights.bytes + rank->kv.bytes() + rank->scratch.bytes() +
                          op_scratch_bytes(spec, options, rank->shard, limits.step_tokens);
    if (rank->decode_loop) stats.device_bytes += rank->decode_loop->bytes();
    if (!rank->cache) continue;
    stats.device_bytes += rank->cache->device_bytes();
    const std::int64_t expert_bytes = rank->cache->layout().bytes;
    const ExpertCache::Counters counters = rank->cache->counters();
    stats.expert_bytes_read += counters.bytes_read;
    stats.expert_bytes_ahead += counters.ahead * expert_bytes;
    stats.expert_bytes_in_vain += counters.ahead_in_vain * expert_bytes;
    if (rank->prefetcher) stats.device_bytes += rank->prefetcher->bytes();
    stats.host_bytes += rank->cache->is_resident() ? 0 : rank->store->outside_bytes();
    if (rank->host_experts) stats.host_bytes += rank->host_experts->host_bytes();
  }
  return stats;
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

bool Engine::reconfigure(const EngineOptions& options) { return impl_->reconfigure(options, impl_->asked_limits); }
bool Engine::reconfigure(const EngineOptions& options, const EngineLimits& limits) { return impl_->reconfigure(options, limits); }

RunStats Engine::stats() const { return impl_->stats(); }

void Engine::reset_stats() {
  impl_->tokens_run = 0;
  for (const auto& rank : impl_->ranks) {
    rank->communication_seconds = 0.0;
    if (rank->host_router) rank->host_router->reset_rerouted();
    if (rank->cache) rank->cache->reset_counters();
    if (rank->host_experts) rank->host_experts->reset_seconds();
  }
  impl_->host_waits_before = host_waits(impl_->ranks.front()->device);
}

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
    const bool routes = one.layer >= 0 && one.layer < spec.layers && spec.moe_layers[static_cast<std::size_t>(one.layer)];
    if (!routes || one.expert < 0 || one.expert >= spec.experts)
      throw InputError("hot experts", "layer " + std::to_string(one.layer) + ", expert " + std::to_string(one.expert),
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

void Engine::observe_next_gate(GateObserver observer) { impl_->ranks.front()->gate_observer = std::move(observer); }

void Engine::record_steps(StepRecorder* recorder) {
  Rank& first = *impl_->ranks.front();
  if (recorder != nullptr) {
    const bool is_on_gpu = !shares_host_memory(first.device);
    if (is_on_gpu && recorder->labels() == nullptr && recorder->detail() == StepRecorder::Detail::ops)
      throw InputError("recorded steps", "ops of a GPU without labels", "labels, or lengths alone");
    if (!is_on_gpu && recorder->labels() != nullptr)
      throw InputError("recorded steps", "labels on a CPU", "none: its ops are timed by the host");
    if (recorder->labels() != nullptr && std::exchange(first.labelled_by, recorder->labels()->number()) != recorder->labels()->number() &&
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
