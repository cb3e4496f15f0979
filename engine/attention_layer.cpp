// Start at attend(): grouped heads (gqa) or a compressed cache (mla).
#include "engine/attention_layer.h"

#include <array>

#include "engine/tensor_names.h"
#include "kernels/gemm.h"
#include "kernels/norm_gemm.h"
#include "kernels/placed_attention.h"
#include "kernels/run.h"

namespace moetune {
namespace {

struct Step {
  std::int64_t tokens;
  Tensor sequences;
  Tensor positions;
  bool is_one_each;
};

Step step_of(const Rank& rank, std::int64_t tokens, bool is_one_each) {
  return {tokens, first_rows(rank.scratch.sequences, {tokens}), first_rows(rank.scratch.positions, {tokens}),
          is_one_each};
}

// The norm in front of attention and the projections that read it.
void project(Rank& rank, const LayerWeights& weights, const Step& step,
             const std::array<NormGemm::Part, 3>& parts) {
  const std::int64_t hidden = rank.spec->hidden;
  run(rank, Row::attention,
      NormGemm{.x = first_rows(rank.scratch.residual, {step.tokens, hidden}),
               .norm = weights.input_norm,
               .normed = first_rows(rank.scratch.normed, {step.tokens, hidden}),
               .eps = static_cast<float>(rank.spec->rms_eps),
               .parts = parts});
}

PlaceHeads placing(const Rank& rank, const Step& step, const std::array<PlaceHeads::Rows, 3>& rows,
                   double eps) {
  return {.rows = rows,
          .sequences = step.sequences,
          .positions = step.positions,
          .frequencies = rank.weights.rope_frequencies,
          .scale = rank.weights.rope_scale,
          .interleaved = rank.spec->rope.interleaved,
          .eps = static_cast<float>(eps)};
}

void attend_grouped(Rank& rank, const LayerWeights& layer_weights, int layer, const Step& step) {
  const AttentionWeights& weights = layer_weights.attention;
  const ModelSpec& spec = *rank.spec;
  const std::int64_t heads = rank.shard.heads(spec).count;
  const std::int64_t kv_heads = rank.shard.kv_heads(spec).count;
  const auto [q, k, v, unused] = projected_heads(rank.scratch, spec, rank.shard, step.tokens);
  const Tensor keys = rank.kv.keys(layer);
  const Tensor values = rank.kv.values(layer);
  const Tensor key_scales = rank.kv.key_scales(layer);
  const Tensor value_scales = rank.kv.value_scales(layer);
  project(rank, layer_weights, step,
          {{{.w = weights.q, .bias = weights.q_bias, .y = flat_heads(q)},
            {.w = weights.k, .bias = weights.k_bias, .y = flat_heads(k)},
            {.w = weights.v, .bias = weights.v_bias, .y = flat_heads(v)}}});
  run(rank, Row::attention,
      PlacedAttention{
          .place =
              placing(rank, step,
                      {{{.x = q, .norm = weights.q_norm, .rotated = 0},
                        {.x = k, .norm = weights.k_norm, .rotated = 0, .cache = keys, .scales = key_scales},
                        {.x = v, .cache = values, .scales = value_scales}}},
                      spec.rms_eps),
          .attention = {.q = q,
                        .k_cache = keys,
                        .v_cache = values,
                        .k_scales = key_scales,
                        .v_scales = value_scales,
                        .sequences = step.sequences,
                        .positions = step.positions,
                        .y = first_rows(rank.scratch.attended, {step.tokens, heads, spec.head_dim}),
                        .kv_heads = static_cast<int>(kv_heads),
                        .scale = rank.weights.softmax_scale,
                        .window = spec.sliding_window,
                        .runs = rank.runs},
          .is_one_each = step.is_one_each});
}

// The key up-projection is moved to the query and the value up-projection behind the attention, so that the
// cache stays compressed: one row per token serves all heads.
void attend_latent(Rank& rank, const LayerWeights& layer_weights, int layer, const Step& step) {
  const AttentionWeights& weights = layer_weights.attention;
  const ModelSpec& spec = *rank.spec;
  const std::int64_t heads = rank.shard.heads(spec).count;
  const auto [q, row, unused, compressed] = projected_heads(rank.scratch, spec, rank.shard, step.tokens);
  const Tensor q_rope = q.columns(spec.qk_nope_dim, spec.qk_rope_dim);
  const Tensor cache = rank.kv.keys(layer);
  const Tensor scales = rank.kv.key_scales(layer);
  const NormGemm::Part latent{.w = weights.kv_a, .bias = weights.kv_a_bias, .y = flat_heads(row)};
  if (weights.q_a.empty()) {
    project(rank, layer_weights, step, {{{.w = weights.q, .y = flat_heads(q)}, latent, {}}});
  } else {
    project(rank, layer_weights, step,
            {{{.w = weights.q_a, .bias = weights.q_a_bias, .y = compressed}, latent, {}}});
    run(rank, Row::attention,
        NormGemm{.x = compressed,
                 .norm = weights.q_a_norm,
                 .normed = compressed,
                 .eps = static_cast<float>(kLatentNormEps),
                 .parts = {{{.w = weights.q_b, .y = flat_heads(q)}, {}, {}}}});
  }
  const Tensor q_latent = first_rows(rank.scratch.q_latent, {step.tokens, heads, spec.kv_lora_rank});
  const Tensor attended_latent =
      first_rows(rank.scratch.attended_latent, {step.tokens, heads, spec.kv_lora_rank});
  run(rank, Row::attention,
      PerHeadGemm{.x = q.columns(0, spec.qk_nope_dim), .w = weights.key_up, .y = q_latent});
  run(rank, Row::attention,
      PlacedMlaAttention{.place = placing(rank, step,
                                          {{{.x = q, .rotated = spec.qk_nope_dim},
                                            {.x = row,
                                             .norm = weights.kv_a_norm,
                                             .rotated = spec.kv_lora_rank,
                                             .cache = cache,
                                             .scales = scales},
                                            {}}},
                                          kLatentNormEps),
                         .attention = {.q_latent = q_latent,
                                       .q_rope = q_rope,
                                       .cache = cache,
                                       .scales = scales,
                                       .sequences = step.sequences,
                                       .positions = step.positions,
                                       .y = attended_latent,
                                       .scale = rank.weights.softmax_scale,
                                       .runs = rank.runs},
                         .is_one_each = step.is_one_each});
  run(rank, Row::attention,
      PerHeadGemm{.x = attended_latent,
                  .w = weights.value_up,
                  .y = first_rows(rank.scratch.attended, {step.tokens, heads, spec.v_head_dim})});
}

}  // namespace

void attend(Rank& rank, const LayerWeights& weights, int layer, std::int64_t tokens, bool is_one_each) {
  const ModelSpec& spec = *rank.spec;
  const Step step = step_of(rank, tokens, is_one_each);
  if (spec.attention == AttentionKind::mla)
    attend_latent(rank, weights, layer, step);
  else
    attend_grouped(rank, weights, layer, step);
  const std::int64_t width = rank.shard.heads(spec).count * value_head_width(spec);
  run(rank, Row::attention,
      Gemm{.x = first_rows(rank.scratch.attended, {tokens, width}),
           .w = weights.attention.o,
           .y = begin_half_layer(rank, tokens),
           .bias = weights.attention.o_bias,
           .accumulate = true});
}

}  // namespace moetune
