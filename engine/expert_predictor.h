// Which experts a layer will ask for, guessed from what was seen before. A guess may fetch an expert early;
// it never replaces the router, so a wrong one costs bytes and no accuracy. Pure logic, the same for the
// engine and for replays of a trace (engine/trace/). Start at predict().
//
//   repeat   what this layer chose in the step before
//   markov   what followed, in this layer, on the experts that the layer before has just chosen; counted
//   since the start table    what this layer chose when it last saw the same token id: exact where a layer is
//   routed by a table of token ids
//
// next_gate needs weights and is asked of the engine (engine/prefetcher.h).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/facts/engine_options.h"

namespace moetune {

// One step's choice of one layer. Ids may be -1 (no expert).
struct LayerChoice {
  std::span<const std::int32_t> ids;        // (tokens, k)
  std::span<const std::int32_t> token_ids;  // (tokens)
  int k = 0;
};

class ExpertPredictor {
 public:
  // layers: that route.
  ExpertPredictor(Prefetch kind, int layers, int experts);

  // Every layer of every step, in order. before: the same step's choice one layer earlier; empty for the
  // first layer.
  void learn(int moe_layer, const LayerChoice& choice, const LayerChoice& before);

  // Experts that `moe_layer` will ask for in a step of these tokens, best guess of every token first, each
  // once; at most `most`. before: what the layer before has chosen in this step; empty ids: nothing is known
  // of it.
  std::vector<std::int32_t> predict(int moe_layer, const LayerChoice& before, std::size_t most) const;

  void forget();
  std::int64_t bytes() const;  // of what was learned

 private:
  std::uint64_t table_key(int moe_layer, std::int32_t token_id) const {
    return (static_cast<std::uint64_t>(moe_layer) << 32) | static_cast<std::uint32_t>(token_id);
  }
  std::uint32_t& count(int moe_layer, std::int32_t from, std::int32_t to);
  // The k likeliest of one token, best first.
  std::vector<std::int32_t> followers(int moe_layer, std::span<const std::int32_t> from, int k) const;

  Prefetch kind_;
  int layers_;
  int experts_;
  std::vector<std::vector<std::int32_t>> last_;  // repeat: per layer, (tokens, k) of the step before
  std::vector<int> last_k_;
  std::vector<std::uint32_t>
      counts_;  // markov: (layers, experts, experts); empty until something was learned
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> table_;
};

// Lists of k experts per token to one list: first the first of every token, then the second; each expert
// once.
std::vector<std::int32_t> by_rank(std::span<const std::int32_t> ids, int k, std::size_t most);

}  // namespace moetune
