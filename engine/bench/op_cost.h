// What a perfect implementation of an op would move and compute: the floor that its time is held against.
// Weights, experts and KV cache are read once; activations, which stay in the caches, are not counted. Start
// at op_cost().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"

namespace moetune {

struct OpFacts {
  std::string name;
  std::string meaning;
};
// All of them, and those that a model has.
const std::vector<OpFacts>& known_ops();
std::vector<std::string> op_names(const ModelSpec& spec);

struct OpWork {
  std::int64_t tokens = 1;
  std::int64_t context =
      1;                   // keys that each token attends to, itself included; of a prompt: of its last token
  bool is_prompt = false;  // the tokens follow each other in one sequence
  double experts_touched = 0.0;  // distinct ones of a layer, as routed
};
struct OpCost {
  double bytes = 0.0;
  double flops = 0.0;
};
// layer: of the model whose shapes are meant.
OpCost op_cost(const std::string& op, const ModelSpec& spec, const EngineOptions& options, int layer,
               const OpWork& work);

}  // namespace moetune
