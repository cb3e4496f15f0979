// SyntheticLogits: what a router would have said if it routed like a published model. Generated weights route
// every token at random, while a trained router has favourites, stays with an expert for a while and can be
// foreseen from one layer earlier; a cache of experts lives on exactly that. Start at the struct; how its
// parts are chosen for a model: engine/synthetic_routing.h.
//
// A logit is a weighted sum of four parts: how popular the expert is in this layer, a draw that is held for a
// number of tokens (each expert changes at a time of its own), a draw that is fresh for every token, and one
// that nobody can know before the layer itself: a prediction leaves it out. Draws are sums of four bytes of a
// Philox word and weights are whole numbers, so that every device gets the same bits, and the same for a
// sequence and position whatever else is in the step.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

inline constexpr int kSyntheticWeightOne = 4096;           // weights are multiples of its inverse
inline constexpr float kSyntheticDeviation = 147.801665F;  // of a sum of four bytes

struct SyntheticLogits {
  Tensor logits{};  // (tokens, experts) f32, overwritten
  Tensor favour{};  // (experts) i32: popularity, in units of a draw times kSyntheticWeightOne; empty: this is
                    // off
  Tensor sequences{};  // (tokens) i32
  Tensor positions{};  // (tokens) i32
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  int hold_tokens = 1;    // how long a held draw stands
  int favour_weight = 1;  // 0: no expert is popular
  int held_weight = 0;    // of kSyntheticWeightOne, as the next two
  int fresh_weight = kSyntheticWeightOne;
  int surprise_weight = 0;
  bool is_prediction = false;  // without the surprise
};
void run(Cpu& cpu, const SyntheticLogits& op);
void run(Cuda& cuda, const SyntheticLogits& op);

}  // namespace moetune
