#include "engine/bench/layer_ops.h"

#include <stdexcept>

#include "engine/attention_layer.h"
#include "engine/feed_forward.h"
#include "engine/router.h"
#include "kernels/attention.h"
#include "kernels/mla_attention.h"
#include "kernels/norm_gemm.h"
#include "kernels/run.h"

namespace moetune {
namespace {

void run_attention(Rank& rank, int layer, std::int64_t tokens) {
  const ModelSpec& spec = *rank.spec;
  const Scratch& scratch = rank.scratch;
  const Tensor sequences = first_rows(scratch.sequences, {tokens});
  const Tensor positions = first_rows(scratch.positions, {tokens});
  const std::int64_t heads = spec.heads;
  if (spec.attention == AttentionKind::mla) {
    const Tensor q = projected_heads(scratch, spec, rank.shard, tokens).q;
    return run(rank.device,
               MlaAttention{.q_latent = first_rows(scratch.q_latent, {tokens, heads, spec.kv_lora_rank}),
                            .q_rope = q.columns(spec.qk_nope_dim, spec.qk_rope_dim),
                            .cache = rank.kv.keys(layer),
                            .scales = rank.kv.key_scales(layer),
                            .sequences = sequences,
                            .positions = positions,
                            .y = first_rows(scratch.attended_latent, {tokens, heads, spec.kv_lora_rank}),
                            .scale = rank.weights.softmax_scale,
                            .runs = rank.runs});
  }
  return run(rank.device, Attention{.q = projected_heads(scratch, spec, rank.shard, tokens).q,
                                    .k_cache = rank.kv.keys(layer),
                                    .v_cache = rank.kv.values(layer),
                                    .k_scales = rank.kv.key_scales(layer),
                                    .v_scales = rank.kv.value_scales(layer),
                                    .sequences = sequences,
                                    .positions = positions,
                                    .y = first_rows(scratch.attended, {tokens, heads, spec.head_dim}),
                                    .kv_heads = spec.kv_heads,
                                    .scale = rank.weights.softmax_scale,
                                    .window = spec.sliding_window,
                                    .runs = rank.runs});
}

}  // namespace

void run_layer_op(Rank& rank, const std::string& op, const BenchLayer& layer, std::int64_t tokens,
                  bool is_prompt) {
  rank.runs = is_prompt ? 1 : static_cast<int>(tokens);
  const ModelSpec& spec = *rank.spec;
  Scratch& scratch = rank.scratch;
  const LayerWeights& weights = rank.weights.layers[static_cast<std::size_t>(layer.index)];
  const Tensor residual = first_rows(scratch.residual, {tokens, spec.hidden});
  const Tensor normed = first_rows(scratch.normed, {tokens, spec.hidden});
  if (op == "attention_half") return attend(rank, weights, layer.index, tokens, !is_prompt);
  if (op == "moe") return mixture_of_experts(rank, weights, layer.index, layer.moe_index, tokens);
  if (op == "dense") return feed_forward(rank, weights, tokens);
  if (op == "layer") {
    attend(rank, weights, layer.index, tokens, !is_prompt);
    return spec.moe_layers[static_cast<std::size_t>(layer.index)]
               ? run_layer_op(rank, "moe", layer, tokens, is_prompt)
               : feed_forward(rank, weights, tokens);
  }
  if (op == "attention") return run_attention(rank, layer.index, tokens);
  if (op == "routed") {
    run_layer_op(rank, "router", layer, tokens, is_prompt);
    return run_layer_op(rank, "experts", layer, tokens, is_prompt);
  }
  if (op == "router") return void(route(rank, weights, layer.index, layer.moe_index, tokens));
  if (op == "experts") return run_resident_experts(rank, normed, layer.moe_index, residual);
  if (op == "shared") return run_shared_experts(rank, weights, normed, residual);
  if (op == "head")
    return run(rank.device, NormGemm{.x = residual,
                                     .norm = rank.weights.final_norm,
                                     .normed = first_rows(scratch.wanted_rows, {tokens, spec.hidden}),
                                     .eps = static_cast<float>(spec.rms_eps),
                                     .parts = {{{.w = rank.weights.head,
                                                 .y = first_rows(scratch.logits, {tokens, spec.vocabulary})},
                                                {},
                                                {}}}});
  throw std::logic_error("op " + op + " cannot be run");
}

std::vector<Tensor> outputs_of(const Rank& rank, const std::string& op, std::int64_t tokens) {
  const Scratch& scratch = rank.scratch;
  const ModelSpec& spec = *rank.spec;
  const std::int64_t heads = spec.heads;
  const bool is_mla = spec.attention == AttentionKind::mla;
  std::vector<Tensor> tensors;
  const auto add = [&](const OwnedTensor& tensor, std::initializer_list<std::int64_t> shape) {
    tensors.push_back(first_rows(tensor, shape));
  };
  if (op == "attention" && is_mla) add(scratch.attended_latent, {tokens, heads, spec.kv_lora_rank});
  if (op == "attention_half" || op == "layer" || (op == "attention" && !is_mla))
    add(scratch.attended, {tokens, heads, value_head_width(spec)});
  if (op == "router" || op == "routed" || op == "moe" || op == "layer") {
    if (spec.moe_layer_count() > 0) {
      add(scratch.router_logits, {tokens, spec.experts});
      add(scratch.expert_weights, {tokens, rank.top_k});
      add(scratch.normed, {tokens, spec.hidden});
    }
  }
  if (op == "head") add(scratch.logits, {tokens, spec.vocabulary});
  return tensors;
}

}  // namespace moetune
