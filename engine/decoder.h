// The whole model on one rank: embedding, layers, final norm, head. Start at decode_step().
#pragma once

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "engine/rank.h"

namespace moetune {

// A step as the ranks see it: checked, taken apart, on the host.
struct StepInputs {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> sequences;
  std::span<const std::int32_t> positions;
  std::span<const std::int32_t> wanted;  // rows whose logits are asked for, ascending
};

// Runs a step on one rank. Every rank of the group must run the same one. Writes this rank's part of the
// vocabulary into its columns of logits, (wanted, vocabulary) on the host: between them the ranks fill all of
// it.
void decode_step(Rank& rank, const StepInputs& step, float* logits);

// The same without the host: place_step() once, then decode_placed() runs the tokens that stand in scratch
// (ids, sequences, positions), no two of one sequence, and returns this rank's logits of all of them,
// (tokens, vocabulary part), on the device.
void place_step(Rank& rank, const StepInputs& step);
Tensor decode_placed(Rank& rank, std::int64_t tokens);

}  // namespace moetune
