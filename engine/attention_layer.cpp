// Start at attend(): grouped heads (gqa) or a compressed cache (mla).
#include "engine/attention_layer.h"

#include "engine/tensor_names.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/mla_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/run.h"

namespace moetune {
namespace {

struct Step {
  std::int64_t tokens;
  Tensor sequences;
  Tensor positions;
};

Step step_of(const Rank& rank, std::int64_t tokens) {
  return {tokens, first_rows(rank.scratch.sequences, {tokens}), first_rows(rank.scratch.positions, {tokens})};
}

void rotate(Rank& rank, const Step& step, const Tensor& heads) {
  run(rank.device, Rope{.x = heads,
                        .positions = step.positions,
                        .frequencies = rank.weights.rope_frequencies,
                        .scale = rank.weights.rope_scale,
                        .interleaved = rank.spec->rope.interleaved});
}

void project(Rank& rank, const Tensor& x, const WeightMatrix& w, const Tensor& bias, const Tensor& y) {
  run(rank.device, Gemm{.x = x, .w = w, .y = y, .bias = bias});
}

// y = norm of each head of x, in place.
void norm_heads(Rank& rank, const Tensor& weight, const Tensor& heads) {
  if (weight.empty()) return;
  const Tensor rows = heads.reshaped({heads.dim(0) * heads.dim(1), heads.dim(2)});
  run(rank.device,
      RmsNorm{.x = rows, .weight = weight, .y = rows, .eps = static_cast<float>(rank.spec->rms_eps)});
}

Tensor flat(const Tensor& heads) { return heads.reshaped({heads.dim(0), heads.dim(1) * heads.dim(2)}); }

void attend_grouped(Rank& rank, const AttentionWeights& weights, int layer, const Step& step) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t heads = rank.shard.heads(spec).count;
  const std::int64_t kv_heads = rank.shard.kv_heads(spec).count;
  const Tensor x = first_rows(rank.scratch.normed, {step.tokens, spec.hidden});
  const Tensor q = first_rows(rank.scratch.q, {step.tokens, heads, spec.head_dim});
  const Tensor k = first_rows(rank.scratch.k, {step.tokens, kv_heads, spec.head_dim});
  const Tensor v = first_rows(rank.scratch.v, {step.tokens, kv_heads, spec.head_dim});
  project(rank, x, weights.q, weights.q_bias, flat(q));
  project(rank, x, weights.k, weights.k_bias, flat(k));
  project(rank, x, weights.v, weights.v_bias, flat(v));
  norm_heads(rank, weights.q_norm, q);
  norm_heads(rank, weights.k_norm, k);
  rotate(rank, step, q);
  rotate(rank, step, k);
  const Tensor keys = rank.kv.keys(layer);
  const Tensor values = rank.kv.values(layer);
  run(rank.device,
      StoreKv{.rows = flat(k), .sequences = step.sequences, .positions = step.positions, .cache = keys});
  run(rank.device,
      StoreKv{.rows = flat(v), .sequences = step.sequences, .positions = step.positions, .cache = values});
  run(rank.device, Attention{.q = q,
                             .k_cache = keys,
                             .v_cache = values,
                             .sequences = step.sequences,
                             .positions = step.positions,
                             .y = first_rows(rank.scratch.attended, {step.tokens, heads, spec.head_dim}),
                             .kv_heads = static_cast<int>(kv_heads),
                             .scale = rank.weights.softmax_scale,
                             .window = spec.sliding_window});
}

void project_mla_query(Rank& rank, const AttentionWeights& weights, const Tensor& x, const Tensor& q) {
  if (weights.q_a.empty()) return project(rank, x, weights.q, {}, flat(q));
  const Tensor compressed = first_rows(rank.scratch.q_compressed, {x.dim(0), rank.spec->q_lora_rank});
  project(rank, x, weights.q_a, weights.q_a_bias, compressed);
  run(rank.device, RmsNorm{.x = compressed,
                           .weight = weights.q_a_norm,
                           .y = compressed,
                           .eps = static_cast<float>(kLatentNormEps)});
  project(rank, compressed, weights.q_b, {}, flat(q));
}

// The key up-projection is moved to the query and the value up-projection behind the attention, so that the
// cache stays compressed: one row per token serves all heads.
void attend_latent(Rank& rank, const AttentionWeights& weights, int layer, const Step& step) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t heads = rank.shard.heads(spec).count;
  const std::int64_t width = std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim;
  const Tensor x = first_rows(rank.scratch.normed, {step.tokens, spec.hidden});
  const Tensor q = first_rows(rank.scratch.q, {step.tokens, heads, q_head_width(spec)});
  const Tensor q_rope = q.columns(spec.qk_nope_dim, spec.qk_rope_dim);
  project_mla_query(rank, weights, x, q);
  rotate(rank, step, q_rope);

  const Tensor row = first_rows(rank.scratch.k, {step.tokens, width});
  const Tensor latent = row.columns(0, spec.kv_lora_rank);
  project(rank, x, weights.kv_a, weights.kv_a_bias, row);
  run(rank.device,
      RmsNorm{
          .x = latent, .weight = weights.kv_a_norm, .y = latent, .eps = static_cast<float>(kLatentNormEps)});
  rotate(rank, step,
         first_rows(rank.scratch.k, {step.tokens, 1, width}).columns(spec.kv_lora_rank, spec.qk_rope_dim));
  const Tensor cache = rank.kv.keys(layer);
  run(rank.device,
      StoreKv{.rows = row, .sequences = step.sequences, .positions = step.positions, .cache = cache});

  const Tensor q_latent = first_rows(rank.scratch.q_latent, {step.tokens, heads, spec.kv_lora_rank});
  const Tensor attended_latent =
      first_rows(rank.scratch.attended_latent, {step.tokens, heads, spec.kv_lora_rank});
  run(rank.device, PerHeadGemm{.x = q.columns(0, spec.qk_nope_dim), .w = weights.key_up, .y = q_latent});
  run(rank.device, MlaAttention{.q_latent = q_latent,
                                .q_rope = q_rope,
                                .cache = cache,
                                .sequences = step.sequences,
                                .positions = step.positions,
                                .y = attended_latent,
                                .scale = rank.weights.softmax_scale});
  run(rank.device,
      PerHeadGemm{.x = attended_latent,
                  .w = weights.value_up,
                  .y = first_rows(rank.scratch.attended, {step.tokens, heads, spec.v_head_dim})});
}

}  // namespace

void attend(Rank& rank, const AttentionWeights& weights, int layer, std::int64_t tokens) {
  const ModelSpec& spec = *rank.spec;
  const Step step = step_of(rank, tokens);
  if (spec.attention == AttentionKind::mla)
    attend_latent(rank, weights, layer, step);
  else
    attend_grouped(rank, weights, layer, step);
  const std::int64_t width = rank.shard.heads(spec).count * value_head_width(spec);
  project(rank, first_rows(rank.scratch.attended, {tokens, width}), weights.o, weights.o_bias,
          first_rows(rank.scratch.output, {tokens, spec.hidden}));
}

}  // namespace moetune
