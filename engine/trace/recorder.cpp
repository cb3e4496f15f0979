#include "engine/trace/recorder.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "engine/option_rules.h"

namespace moetune {
namespace {

// Row of each layer among those that route; -1 for the others.
std::vector<int> rows_of(const ModelSpec& spec) {
  std::vector<int> rows;
  for (int next = 0; const bool routes : spec.moe_layers) rows.push_back(routes ? next++ : -1);
  return rows;
}

// Takes observers and sources off again on every way out: an engine outlives the pass.
class Detach {
 public:
  explicit Detach(Engine& engine) : engine_(engine) {}
  ~Detach() {
    engine_.observe_routing({});
    engine_.observe_next_gate({});
    engine_.force_routing({});
  }
  Detach(const Detach&) = delete;
  Detach& operator=(const Detach&) = delete;

 private:
  Engine& engine_;
};

// Writes what the engine's observers see into the trace's rows of the running step.
class Recording {
 public:
  Recording(Engine& engine, RoutingTrace& trace) : trace_(trace), rows_(rows_of(engine.spec())) {
    engine.observe_routing([this](int layer, std::span<const std::int32_t> ids,
                                  std::span<const float> weights, int tokens, int k) {
      if (trace_.k == 0) trace_.k = k;
      grow(tokens);
      put(layer, ids, tokens, trace_.expert_ids);
      put(layer, weights, tokens, trace_.expert_weights);
    });
    engine.observe_next_gate([this](int layer, std::span<const std::int32_t> ids, int tokens, int) {
      put(layer, ids, tokens, trace_.foreseen);
    });
  }

  void step_begins() { begin_ = trace_.tokens(); }

 private:
  // Room for the step's tokens, once its first layer that routes is there and k is known.
  void grow(int tokens) {
    const auto size = static_cast<std::size_t>((begin_ + tokens) * trace_.layers * trace_.k);
    if (trace_.expert_ids.size() >= size) return;
    trace_.expert_ids.resize(size, -1);
    trace_.expert_weights.resize(size, 0.0F);
    trace_.foreseen.resize(size, -1);
  }
  template <class T>
  void put(int layer, std::span<const T> from, int tokens, std::vector<T>& to) {
    const auto k = static_cast<std::size_t>(trace_.k);
    for (int token = 0; token < tokens; ++token) {
      const std::int64_t row = (begin_ + token) * trace_.layers + rows_[static_cast<std::size_t>(layer)];
      std::ranges::copy(from.subspan(static_cast<std::size_t>(token) * k, k), to.begin() + row * trace_.k);
    }
  }

  RoutingTrace& trace_;
  std::vector<int> rows_;
  std::int64_t begin_ = 0;  // first token of the running step
};

StepToken token_of(std::int32_t id, std::int64_t position, bool wants_logits) {
  return {
      .id = id, .sequence = 0, .position = static_cast<std::int32_t>(position), .wants_logits = wants_logits};
}

}  // namespace

EngineLimits trace_limits(int context_tokens, int step_tokens) {
  return {.sequences = 1, .context_tokens = context_tokens, .step_tokens = step_tokens, .logit_rows = 1};
}

RoutingTrace record_trace(Engine& engine, const TracePlan& plan) {
  const ModelSpec& spec = engine.spec();
  RoutingTrace trace;
  trace.model = spec.name;
  trace.model_hash = spec.content_hash;
  trace.layers = spec.moe_layer_count();
  trace.experts = spec.experts;
  trace.expert_bytes = expert_bytes(spec, engine.options());
  trace.kind_names = plan.kind_names;
  const Detach detach(engine);
  Recording recording(engine, trace);
  std::vector<StepToken> step;
  std::int32_t step_number = 0;
  for (std::size_t sequence = 0; sequence < plan.sequences.size(); ++sequence) {
    const TracedText& text = plan.sequences[sequence];
    for (std::int64_t next = 0; next < std::ssize(text.ids); ++step_number) {
      const bool decodes = next >= plan.prompt_tokens;
      const std::int64_t end =
          decodes ? next + 1 : std::min<std::int64_t>(plan.prompt_tokens, next + engine.limits().step_tokens);
      recording.step_begins();
      step.clear();
      for (std::int64_t position = next; position < end; ++position)
        step.push_back(token_of(text.ids[static_cast<std::size_t>(position)], position, position + 1 == end));
      engine.forward(step);
      for (; next < end; ++next) {
        trace.token_ids.push_back(text.ids[static_cast<std::size_t>(next)]);
        trace.kinds.push_back(text.kinds[static_cast<std::size_t>(next)]);
        trace.sequences.push_back(static_cast<std::int32_t>(sequence));
        trace.positions.push_back(static_cast<std::int32_t>(next));
        trace.steps.push_back(step_number);
        trace.decodes.push_back(decodes ? 1 : 0);
      }
    }
  }
  return trace;
}

std::vector<SequenceRun> run_trace(Engine& engine, const RoutingTrace& trace,
                                   std::span<const Engine::HotExpert> prewarmed) {
  const std::vector<int> rows = rows_of(engine.spec());
  const Detach detach(engine);
  std::int64_t begin = 0;  // first token of the running step
  engine.force_routing([&](int layer, std::span<std::int32_t> ids, int tokens, int k) {
    for (int token = 0; token < tokens; ++token)
      std::ranges::copy(trace.ids(begin + token, rows[static_cast<std::size_t>(layer)]),
                        ids.begin() + std::ptrdiff_t{token} * k);
  });
  engine.drop_expert_cache();
  if (!prewarmed.empty()) engine.prewarm_experts(prewarmed);
  std::vector<SequenceRun> runs;
  std::map<std::int32_t, std::size_t> run_of_sequence;
  std::vector<StepToken> step;
  for (std::int64_t end = 0; begin < trace.tokens(); begin = end) {
    const auto first = static_cast<std::size_t>(begin);
    step.clear();
    for (end = begin;
         end < trace.tokens() && trace.steps[static_cast<std::size_t>(end)] == trace.steps[first]; ++end)
      step.push_back(token_of(trace.token_ids[static_cast<std::size_t>(end)],
                              trace.positions[static_cast<std::size_t>(end)], false));
    step.back().wants_logits = true;
    const auto [known, is_new] = run_of_sequence.try_emplace(trace.sequences[first], runs.size());
    if (is_new) runs.emplace_back();
    const RunStats before = engine.stats();
    const auto start = std::chrono::steady_clock::now();
    engine.forward(step);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const RunStats after = engine.stats();
    SequenceRun& run = runs[known->second];
    if (trace.decodes[first] == 0) {
      run.prompt_misses += after.expert_misses - before.expert_misses;
      continue;
    }
    ++run.steps;
    run.hits += after.expert_hits - before.expert_hits;
    run.misses += after.expert_misses - before.expert_misses;
    run.ahead += after.experts_ahead - before.experts_ahead;
    run.ahead_in_vain += after.experts_ahead_in_vain - before.experts_ahead_in_vain;
    run.seconds += seconds;
  }
  return runs;
}

std::vector<Engine::HotExpert> hottest_experts(const ModelSpec& spec, const RoutingTrace& trace) {
  std::vector<std::pair<std::int64_t, Engine::HotExpert>> uses;
  for (int layer = 0; layer < spec.layers; ++layer)
    for (std::int32_t expert = 0; spec.moe_layers[static_cast<std::size_t>(layer)] && expert < spec.experts;
         ++expert)
      uses.push_back({0, {layer, expert}});
  for (std::int64_t token = 0; token < trace.tokens(); ++token)
    for (int layer = 0; layer < trace.layers; ++layer)
      for (const std::int32_t id : trace.ids(token, layer))
        if (id >= 0)
          ++uses[static_cast<std::size_t>(layer) * static_cast<std::size_t>(trace.experts) +
                 static_cast<std::size_t>(id)]
                .first;
  std::ranges::stable_sort(uses, std::greater<>(), [](const auto& use) { return use.first; });
  std::vector<Engine::HotExpert> hottest;
  for (const auto& [count, expert] : uses) hottest.push_back(expert);
  return hottest;
}

}  // namespace moetune
