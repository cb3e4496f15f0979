// FollowExperts and RecallExperts: guess which experts the next layer will choose, from counts that are kept
// where the routing is, so that the host is not asked. The rules are those of engine/expert_predictor.h
// (markov, table); both learn and guess in one op, since what a layer has chosen is known when the next one
// is to be guessed. A guess brings experts in early and changes no result.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// markov: experts that followed in the next layer on those that this layer has chosen, by how often they did.
struct FollowExperts {
  Tensor ids;     // (tokens, k) i32: what this layer has chosen; -1: none
  Tensor before;  // (tokens, k) i32: what the layer before has chosen; read where learns, then written: ids
  bool learns = true;  // false: there is no layer before
  Tensor
      counts;  // (experts, experts) i32 of this layer, added to: an expert of the layer before, one of this
  Tensor next_counts{};  // the same of the next layer; empty: nothing is guessed
  Tensor guesses{};  // (tokens, k) i32, written: best first, the lower number among equals, -1 where nothing
                     // was ever seen
};
void run(Cpu& cpu, const FollowExperts& op);
// At most 1,024 experts: throws std::invalid_argument.
void run(Cuda& cuda, const FollowExperts& op);

// table: what the next layer chose when it last saw the same token.
struct RecallExperts {
  Tensor token_ids;  // (tokens) i32
  Tensor ids{};      // (tokens, k) i32: what this layer has chosen, written down; empty: nothing is learned
  Tensor table{};    // (vocabulary, width) i32 of this layer, width >= k; of a token seen twice in a step the
                     // last one counts
  Tensor next_table{};  // of the next layer; empty: nothing is guessed
  Tensor guesses{};     // (tokens, k) i32, written; -1 where the token was never seen
};
void run(Cpu& cpu, const RecallExperts& op);
void run(Cuda& cuda, const RecallExperts& op);

}  // namespace moetune
