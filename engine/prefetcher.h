// Guesses the next layer's experts while a layer's own are computed, and has the expert cache fetch them. One
// per rank. Start at after_choice().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/device_guesses.h"
#include "engine/expert_predictor.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "kernels/buffer.h"
#include "kernels/device.h"

namespace moetune {

struct Rank;

// Memory for asking a router before its turn, for that many tokens.
struct GateAhead {
  OwnedTensor normed;   // (tokens, hidden) f32
  OwnedTensor logits;   // (tokens, experts) f32
  OwnedTensor ids;      // (tokens, k) i32
  OwnedTensor weights;  // (tokens, k) f32

  GateAhead(Device& device, const ModelSpec& spec, std::int64_t tokens);
  std::int64_t tokens() const { return ids.view().dim(0); }
  static std::int64_t bytes_of(const ModelSpec& spec, std::int64_t tokens);
};

// Enqueues the question which experts the router of `layer` would choose of the residual stream as it is now.
// layer: of the model, one that routes.
void ask_gate(Rank& rank, GateAhead& gate, int layer, std::int64_t tokens);
// The answer, (tokens, k), best first. Waits for the device; the experts' results may not be enqueued yet.
std::span<const std::int32_t> answer_of_gate(Rank& rank, GateAhead& gate, std::int64_t tokens);

class Prefetcher {
 public:
  // sequences: most tokens of a decode step; longer steps, up to step_tokens, are learned from and not
  // guessed for: a prompt asks for most experts.
  struct For {
    std::int64_t sequences = 1;
    std::int64_t step_tokens = 1;
    bool on_device = false;  // the device looks up, so that it guesses too
  };
  Prefetcher(Device& device, const ModelSpec& spec, Prefetch kind, const For& steps);

  // Before the first layer of a step.
  void begin_step(Rank& rank, std::int64_t tokens);  // recorded too
  // Behind the layer's router, enqueued: what the device knows of the next layer.
  void ask(Rank& rank, int layer, std::int64_t tokens);
  // Where the device looks up: the layer's last wave is enqueued. Guesses on the device, without the host.
  void after_lookup(Rank& rank, int layer, int moe_layer, std::int64_t tokens);
  // Where the host does. The layer's choice is rank.chosen_ids, its last wave is in place.
  void after_choice(Rank& rank, int layer, int moe_layer, std::int64_t tokens);
  void forget();

  // Of device memory.
  static std::int64_t bytes_of(const ModelSpec& spec, Prefetch kind, const For& steps);
  std::int64_t bytes() const { return bytes_; }

 private:
  void begin_step_on_host(Rank& rank, std::int64_t tokens);
  void fetch(Rank& rank, int moe_layer, std::span<const std::int32_t> experts);

  Prefetch kind_;
  ExpertPredictor predictor_;
  std::vector<GateAhead> gate_;               // one, or none: only next_gate asks
  std::unique_ptr<DeviceGuesses> on_device_;  // markov and table, where the device looks up
  std::int64_t bytes_ = 0;
  std::vector<std::int32_t> token_ids_;  // of the running step
  std::vector<std::int32_t> before_;     // (tokens, k): what the layer before has chosen
};

}  // namespace moetune
