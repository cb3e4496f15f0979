// What ExpertPredictor counts and guesses (markov, table), for an expert cache whose device decides: in the
// device's memory, enqueued behind a layer's choice. Start at after_choice().
#pragma once

#include <cstdint>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

class DeviceGuesses {
 public:
  // kind: markov or table. step_tokens: most tokens that are learned from at once; sequences: that are
  // guessed for. Nothing is known yet. Throws std::bad_alloc.
  DeviceGuesses(Device& device, const ModelSpec& spec, Prefetch kind, std::int64_t step_tokens,
                std::int64_t sequences);

  // Learns what a layer that routes has chosen, ids (tokens, k); with guesses_next it guesses the next one's:
  // the answer, (tokens, k), best first, -1: none. Empty where it is the last layer. token_ids: (tokens).
  Tensor after_choice(int moe_layer, const Tensor& ids, const Tensor& token_ids, bool guesses_next);
  // The first layer's experts, (tokens, k), from the tokens alone; empty where the kind does not know any.
  Tensor before_step(const Tensor& token_ids, std::int64_t k);

  void forget();
  static std::int64_t bytes_of(const ModelSpec& spec, Prefetch kind, std::int64_t step_tokens,
                               std::int64_t sequences);

 private:
  Tensor counts(int moe_layer) const;  // of one layer
  Tensor guesses(std::int64_t tokens, std::int64_t k) const;

  Device* device_;
  Prefetch kind_;
  int layers_;
  std::int64_t rows_;     // of a layer's counts: experts, or ids of the vocabulary
  std::int64_t columns_;  // experts, or experts per token
  OwnedTensor counts_;    // (layers * rows, columns) i32
  OwnedTensor before_;    // (step_tokens, experts per token) i32; markov
  OwnedTensor guesses_;   // (sequences, experts per token) i32
};

}  // namespace moetune
