// Runs one MoE model under one set of options. Start at Engine::forward(): a step over any mix of sequences,
// prefill and decode alike. Knows devices only through kernels/run.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/facts/run_stats.h"

namespace moetune {

class StepRecorder;  // engine/sync_tax/step_recorder.h
struct Injection;    // engine/sync_tax/injection.h

// What the caller will ask for at most: sizes KV cache and scratch before anything runs.
struct EngineLimits {
  int sequences = 1;          // slots side by side
  int context_tokens = 1024;  // longest context of one sequence
  int step_tokens =
      512;             // most tokens in one forward(); longer prompts are cut by the caller or by prefill()
  int logit_rows = 0;  // most tokens of one forward() that want logits; 0: all of them
};

// One token of a step.
struct StepToken {
  std::int32_t id = 0;
  std::int32_t sequence = 0;  // slot, 0 .. limits.sequences - 1
  std::int32_t position =
      0;  // 0-based; must follow the slot's cached context without a gap, or overwrite its tail
  bool wants_logits = true;
};

struct Sampling {
  float temperature = 0.0F;  // 0: greedy
  std::uint64_t seed =
      0;  // equal seeds and equal contexts give equal tokens, alone or beside other sequences
  bool operator==(const Sampling&) const = default;
};

// Decoding without the host in between, several sequences in step.
struct DecodeRequest {
  std::span<const StepToken> first;  // one token per sequence: what the first step is fed
  int steps = 1;                     // 1 .. the room left in the contexts
  std::span<const std::int32_t>
      forced{};  // (steps, sequences): fed after each step in place of the choice; empty: the choice
  Sampling sampling{};
};
struct Decoded {
  std::vector<std::int32_t> ids;     // (steps, sequences): what the model chose after each step
  std::vector<double> step_seconds;  // per step, by the device's clock where the engine decodes on its own
};

// A checkpoint opened once, kept while engines come and go over it (the worker changes options, not files).
class Checkpoint;                                                                 // engine/checkpoint.h
std::shared_ptr<const Checkpoint> open_checkpoint(const std::string& directory);  // throws InputError
const ModelSpec& spec_of(const Checkpoint& checkpoint);

class Engine {
 public:
  // Loads and quantizes what the options ask for. Throws InputError for options the model cannot take (naming
  // knob, value, accepted), std::bad_alloc when memory does not suffice.
  Engine(std::shared_ptr<const Checkpoint> checkpoint, const EngineOptions& options,
         const EngineLimits& limits);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  const ModelSpec& spec() const;
  const EngineOptions& options() const;
  // As in effect: max_sequences, where it is set, holds down sequences; prefill_chunk, where it is set,
  // decides step_tokens (but never below one token per sequence).
  const EngineLimits& limits() const;

  // Runs the tokens of one step (1 .. limits.step_tokens, several per sequence allowed in position order).
  // Returns the logits of those that want them, in step order: (wanting tokens, vocabulary) f32, valid until
  // the next call. Throws InputError for ids, slots or positions out of range, leaving everything as it was;
  // std::runtime_error when an expert cannot be read, after which all contexts are forgotten.
  std::span<const float> forward(std::span<const StepToken> step);

  // Feeds a prompt into a slot from position 0 on, in chunks; returns the logits of its last token.
  std::span<const float> prefill(int sequence, std::span<const std::int32_t> ids);

  // Steps that feed themselves. Every step is checked before the first runs. Throws as forward() does.
  Decoded decode(const DecodeRequest& request);
  // The same in two halves: the first enqueues, on a GPU without waiting for it; the second waits and tells.
  // In between the engine takes no other call. Where the host has a part in each step (a CPU, several ranks)
  // the first half does it all.
  void start_decode(const DecodeRequest& request);
  Decoded finish_decode();  // throws std::logic_error where nothing was started

  // Changes options that need no reload of weights (knob switch cost none or cache) and forgets all contexts;
  // false, with nothing changed: make a new Engine. Throws InputError as the constructor does; std::bad_alloc
  // or std::runtime_error when memory or disk do not suffice, after which only reconfigure() and destruction
  // are left.
  bool reconfigure(const EngineOptions& options);
  bool reconfigure(const EngineOptions& options, const EngineLimits& limits);  // for other limits too

  RunStats stats() const;  // counters since the last reset
  void reset_stats();
  void drop_expert_cache();  // as after loading: a cold start for cache measurements

  // Called after every MoE layer's routing with (layer, ids (tokens, k) best first, their weights (tokens,
  // k), tokens, k), as top_k_rule and reroute_margin left them: -1 where an expert was dropped. Empty to
  // stop. Slows decoding.
  using RoutingObserver = std::function<void(int layer, std::span<const std::int32_t> ids,
                                             std::span<const float> weights, int tokens, int k)>;
  void observe_routing(RoutingObserver observer);

  // Records what the steps from now on spend their time on, on rank 0; null: no more. The recorder must
  // outlive its use. On a GPU it has to have labels, unless only lengths are wanted; graphs that were
  // captured without them are captured anew. Throws InputError for a recorder that the device cannot serve.
  void record_steps(StepRecorder* recorder);

  // Losses of known size from the next step on; for tests of what finds them.
  void inject(const Injection& losses);

  // Asked before every MoE layer's routing: fills ids (tokens, k) with the experts to take in place of the
  // router's choice; their weights come from the router's own scores; -1, on a CPU, is no expert. Empty: the
  // router chooses. With several ranks it is called from all of their threads at once. forward() throws
  // InputError for ids that are no experts or twice in a token. Slows decoding.
  using RoutingSource = std::function<void(int layer, std::span<std::int32_t> ids, int tokens, int k)>;
  void force_routing(const RoutingSource& source);

  // Called after every MoE layer's routing with what the next MoE layer's router would choose of the residual
  // stream as it is then: (layer that is foreseen, ids (tokens, k) best first, tokens, k). Empty to stop.
  // Slows decoding.
  using GateObserver = std::function<void(int layer, std::span<const std::int32_t> ids, int tokens, int k)>;
  void observe_next_gate(GateObserver observer);

  // Fills an expert cache that holds only a share with these, most wanted first, in place of what it held.
  // layer: of the model. Throws InputError for what is no expert.
  struct HotExpert {
    int layer = 0;
    std::int32_t expert = 0;
  };
  void prewarm_experts(std::span<const HotExpert> hottest_first);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
