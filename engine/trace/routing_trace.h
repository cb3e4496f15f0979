// Which experts every token of a run was sent to, in the order in which the run went: what caches and
// predictors are replayed over. Start at RoutingTrace; trace_file.h saves and reads it, recorder.h makes one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace moetune {

// Lists of tokens have one entry per token; steps are numbered from 0 and ascend. Layers count only those
// that route.
struct RoutingTrace {
  std::string model;
  std::string model_hash;
  int layers = 0;
  int experts = 0;                // per layer
  int k = 0;                      // places of a token's list
  std::int64_t expert_bytes = 0;  // of one expert as the recording engine held it

  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> steps;
  std::vector<std::int32_t> decodes;  // 1: a decode step; 0: part of a prompt
  std::vector<std::int32_t> kinds;    // of text: an index into kind_names
  std::vector<std::string> kind_names;

  std::vector<std::int32_t> expert_ids;  // (tokens, layers, k), best first; -1: no expert
  std::vector<float> expert_weights;     // (tokens, layers, k)
  std::vector<std::int32_t>
      foreseen;  // (tokens, layers, k): what the gate of this layer said one layer earlier; -1 in the first

  std::int64_t tokens() const { return std::ssize(token_ids); }
  std::int64_t decode_tokens() const;
  std::span<const std::int32_t> ids(std::int64_t token, int layer) const {
    return of(expert_ids, token, layer);
  }
  std::span<const float> weights(std::int64_t token, int layer) const {
    return of(expert_weights, token, layer);
  }
  std::span<const std::int32_t> foreseen_ids(std::int64_t token, int layer) const {
    return of(foreseen, token, layer);
  }

  // The tokens of some sequences only, steps renumbered.
  RoutingTrace part(const std::function<bool(std::int32_t sequence)>& is_wanted) const;

 private:
  template <class T>
  std::span<const T> of(const std::vector<T>& all, std::int64_t token, int layer) const {
    return std::span(all).subspan(static_cast<std::size_t>((token * layers + layer) * k),
                                  static_cast<std::size_t>(k));
  }
};

// One layer of one step: what an expert cache is asked at once.
struct LayerStep {
  std::int32_t step = 0;
  int layer = 0;
  bool decodes = false;
  bool is_one_each = false;                 // no two tokens of one sequence
  std::span<const std::int32_t> token_ids;  // (tokens)
  std::span<const std::int32_t> ids;        // (tokens, k)
  std::span<const std::int32_t> foreseen;   // (tokens, k)
};

// Every layer of every step, as the engine goes through them.
void for_each_layer_step(const RoutingTrace& trace, const std::function<void(const LayerStep&)>& visit);

// The experts of a list, each once, in the order of first appearance.
std::vector<std::int32_t> distinct_experts(std::span<const std::int32_t> ids);

}  // namespace moetune
