// synthetic_logits.h on the device, for the op by itself and for the end of the router's product.
#pragma once

#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/view.cuh"
#include "kernels/synthetic_logits.h"

namespace moetune::cuda {

struct Synthetic {
  const std::int32_t* favour;  // null: off
  const std::int32_t* sequences;
  const std::int32_t* positions;
  std::uint64_t seed;
  std::uint32_t layer;
  std::uint32_t hold;
  int favour_weight;
  int held_weight;
  int fresh_weight;
  int surprise_weight;
};

inline Synthetic synthetic_of(const SyntheticLogits& op) {
  if (op.favour.empty()) return {};
  return {.favour = op.favour.i32(),
          .sequences = op.sequences.i32(),
          .positions = op.positions.i32(),
          .seed = op.seed,
          .layer = op.layer,
          .hold = static_cast<std::uint32_t>(op.hold_tokens),
          .favour_weight = op.favour_weight,
          .held_weight = op.held_weight,
          .fresh_weight = op.fresh_weight,
          .surprise_weight = op.is_prediction ? 0 : op.surprise_weight};
}

__device__ __forceinline__ int draw(std::uint32_t word) {
  return static_cast<int>(__dp4a(word, 0x01010101U, 0U)) - 510;
}

// What a logit reads of memory: to be loaded long before it is needed.
struct SyntheticInputs {
  std::uint32_t sequence;
  std::uint32_t position;
  int favour;
};
__device__ __forceinline__ SyntheticInputs load_synthetic(const Synthetic& op, std::int64_t token,
                                                          int expert) {
  if (op.favour == nullptr) return {};
  return {static_cast<std::uint32_t>(op.sequences[token]), static_cast<std::uint32_t>(op.positions[token]),
          op.favour[expert]};
}

// The synthetic logit where there is one, else the router's own.
__device__ __forceinline__ float synthetic_or(const Synthetic& op, const SyntheticInputs& in,
                                              std::uint32_t expert, float own) {
  if (op.favour == nullptr) return own;
  const std::uint32_t phase = (expert * 0x9E3779B1U + op.layer * 0x85EBCA77U) >> 8;
  const std::uint32_t period = (in.position + phase % op.hold) / op.hold;
  const int held = draw(philox(expert, 2U * op.layer + 1U, in.sequence, period, op.seed).value[0]);
  const Random4 words = philox(expert, 2U * op.layer, in.sequence, in.position, op.seed);
  const int sum = op.favour_weight * in.favour + op.held_weight * held +
                  op.fresh_weight * draw(words.value[0]) + op.surprise_weight * draw(words.value[1]);
  return static_cast<float>(sum) * (1.0F / (kSyntheticDeviation * static_cast<float>(kSyntheticWeightOne)));
}

}  // namespace moetune::cuda
