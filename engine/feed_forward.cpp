// Start at mixture_of_experts(): router, experts in waves, combine.
#include "engine/feed_forward.h"

#include "engine/expert_waves.h"
#include "kernels/rms_norm.h"
#include "kernels/run.h"

namespace moetune {

void feed_forward(Rank& rank, const LayerWeights& weights, std::int64_t tokens) {
  const std::int64_t hidden = rank.spec->hidden;
  const Tensor normed = first_rows(rank.scratch.normed, {tokens, hidden});
  run(rank, Row::dense,
      RmsNorm{.x = first_rows(rank.scratch.residual, {tokens, hidden}),
              .weight = weights.post_attention_norm,
              .y = normed,
              .eps = static_cast<float>(rank.spec->rms_eps)});
  run_dense(rank, weights.dense, Row::dense, normed, begin_half_layer(rank, tokens));
}

void run_resident_experts(Rank& rank, const Tensor& x, int moe_layer, const Tensor& y) {
  const Chosen chosen{first_rows(rank.scratch.expert_ids, {x.dim(0), rank.top_k}),
                      first_rows(rank.scratch.expert_weights, {x.dim(0), rank.top_k})};
  rank.cache->begin_resident_layer(moe_layer);
  run_all_at_once(rank, x, chosen, {}, y);
}

void run_shared_experts(Rank& rank, const LayerWeights& weights, const Tensor& x, const Tensor& y) {
  run_dense(rank, weights.shared, Row::shared, x, y);
}

void mixture_of_experts(Rank& rank, const LayerWeights& weights, int layer, int moe_layer,
                        std::int64_t tokens) {
  const Tensor x = first_rows(rank.scratch.normed, {tokens, rank.spec->hidden});
  const Chosen chosen = route(rank, weights, layer, moe_layer, tokens);
  if (rank.host_must_know())
    on_host(rank, [&rank, chosen, x, layer, moe_layer] {
      prepare_experts_on_host(rank, chosen, x, layer, moe_layer);
    });
  const Tensor output = begin_half_layer(rank, tokens);
  run_experts(rank, weights.shared, x, chosen, layer, moe_layer, output);
}

}  // namespace moetune
