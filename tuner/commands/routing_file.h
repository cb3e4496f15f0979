// Which experts a run chose, as a file: a safetensors file (https://huggingface.co/docs/safetensors) with two
// tensors,
//   expert_ids      I32 (tokens, MoE layers, k)  best first, as the router ordered them; -1: none
//   expert_weights  F32 (tokens, MoE layers, k)  what their outputs were multiplied by; not read back
// `logits --routing-out` writes it and `--routing-from` takes the ids of one, whoever wrote it. Start at
// RoutingTable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/facts/model_spec.h"
#include "tuner/commands/partial_file.h"

namespace moetune {

class RoutingTable {
 public:
  RoutingTable(const ModelSpec& spec, std::int64_t tokens, int k);

  std::int64_t tokens() const { return tokens_; }
  int moe_layers() const { return moe_layers_; }
  int k() const { return k_; }
  // layer: of the model, one that routes.
  std::span<std::int32_t> ids(std::int64_t token, int layer) {
    return std::span(ids_).subspan(first(token, layer), width());
  }
  std::span<const std::int32_t> ids(std::int64_t token, int layer) const {
    return std::span(ids_).subspan(first(token, layer), width());
  }
  std::span<float> weights(std::int64_t token, int layer) {
    return std::span(weights_).subspan(first(token, layer), width());
  }

  const std::vector<std::int32_t>& all_ids() const { return ids_; }
  std::vector<std::int32_t>& all_ids() { return ids_; }
  const std::vector<float>& all_weights() const { return weights_; }

 private:
  std::size_t width() const { return static_cast<std::size_t>(k_); }
  std::size_t first(std::int64_t token, int layer) const;

  std::vector<int> row_of_layer_;  // -1: it does not route
  std::int64_t tokens_;
  int moe_layers_ = 0;
  int k_;
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
};

void write_routing(PartialFile& file, const RoutingTable& table);

// The ids of a file for a run of that many tokens with k experts each. Throws InputError naming the file and
// what is wrong: not such a file, another shape, an id that is no expert, an expert twice.
RoutingTable read_routing(const std::string& path, const ModelSpec& spec, std::int64_t tokens, int k);

}  // namespace moetune
