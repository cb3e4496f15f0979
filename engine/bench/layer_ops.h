// One op of a layer, or the whole layer, as the engine runs it on a rank whose scratch holds the step's
// tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/rank.h"

namespace moetune {

struct BenchLayer {
  int index = 0;      // of the model
  int moe_index = 0;  // among those that route
};

// op: of op_names() (engine/bench/op_cost.h), "read" apart. is_prompt: the tokens follow each other in one
// sequence; else each is the last of its own. What an op takes for given must be in scratch, from the ops
// before it. Throws std::logic_error for another op.
void run_layer_op(Rank& rank, const std::string& op, const BenchLayer& layer, std::int64_t tokens,
                  bool is_prompt);

// What an op writes, the residual stream apart: that is its input too.
std::vector<Tensor> outputs_of(const Rank& rank, const std::string& op, std::int64_t tokens);

}  // namespace moetune
