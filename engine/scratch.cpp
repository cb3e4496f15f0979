#include "engine/scratch.h"

#include <algorithm>

namespace moetune {

std::vector<ScratchItem> scratch_items(const ModelSpec& spec, const Shard& shard, std::int64_t tokens,
                                       std::int64_t logit_rows) {
  constexpr NumberType f32 = NumberType::f32;
  constexpr NumberType i32 = NumberType::i32;
  const std::int64_t heads = shard.heads(spec).count;
  std::vector<ScratchItem> items{
      {&Scratch::ids, i32, {tokens, 1, 1}},
      {&Scratch::sequences, i32, {tokens, 1, 1}},
      {&Scratch::positions, i32, {tokens, 1, 1}},
      {&Scratch::wanted, i32, {logit_rows, 1, 1}},
      {&Scratch::residual, f32, {tokens, spec.hidden, 1}},
      {&Scratch::normed, f32, {tokens, spec.hidden, 1}},
      {&Scratch::output, f32, {tokens, spec.hidden, 1}},
      {&Scratch::q, f32, {tokens, heads, q_head_width(spec)}},
      {&Scratch::attended, f32, {tokens, heads, value_head_width(spec)}},
      {&Scratch::wanted_rows, f32, {logit_rows, spec.hidden, 1}},
      {&Scratch::logits, f32, {logit_rows, shard.vocabulary(spec).count, 1}},
  };
  if (spec.attention == AttentionKind::mla) {
    if (spec.q_lora_rank > 0) items.push_back({&Scratch::q_compressed, f32, {tokens, spec.q_lora_rank, 1}});
    items.push_back({&Scratch::k, f32, {tokens, 1, std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim}});
    items.push_back({&Scratch::q_latent, f32, {tokens, heads, spec.kv_lora_rank}});
    items.push_back({&Scratch::attended_latent, f32, {tokens, heads, spec.kv_lora_rank}});
  } else {
    const std::int64_t kv_heads = shard.kv_heads(spec).count;
    items.push_back({&Scratch::k, f32, {tokens, kv_heads, spec.head_dim}});
    items.push_back({&Scratch::v, f32, {tokens, kv_heads, spec.head_dim}});
  }
  const int moe_layers = spec.moe_layer_count();
  const std::int64_t dense = moe_layers < spec.layers ? shard.dense_inner(spec).count : 0;
  const std::int64_t shared = moe_layers > 0 ? shard.shared_inner(spec).count : 0;
  if (const std::int64_t inner = std::max(dense, shared); inner > 0) {
    items.push_back({&Scratch::gate, f32, {tokens, inner, 1}});
    items.push_back({&Scratch::up, f32, {tokens, inner, 1}});
  }
  if (moe_layers > 0) {
    items.push_back({&Scratch::router_logits, f32, {tokens, spec.experts, 1}});
    items.push_back({&Scratch::expert_ids, i32, {tokens, spec.experts_per_token, 1}});
    items.push_back({&Scratch::expert_weights, f32, {tokens, spec.experts_per_token, 1}});
    items.push_back({&Scratch::expert_rows, f32, {tokens, spec.experts_per_token, spec.hidden}});
  }
  return items;
}

Scratch make_scratch(Device& device, const std::vector<ScratchItem>& items) {
  Scratch scratch;
  for (const ScratchItem& item : items)
    scratch.*item.member = OwnedTensor(device, item.type, {item.shape[0], item.shape[1], item.shape[2]});
  return scratch;
}

std::int64_t op_scratch_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard, std::int64_t tokens) {
  if (options.device == DeviceKind::cpu) return 0;
  constexpr std::int64_t kF32 = 4;
  constexpr std::int64_t kLeast = std::int64_t{4} << 20;  // partial sums of products that are cut along their inputs
  const auto padded = [](std::int64_t width) { return (width + 255) / 256 * 256; };
  const std::int64_t hidden = padded(spec.hidden);
  const int moe_layers = spec.moe_layer_count();
  const std::int64_t shared = moe_layers > 0 ? shard.shared_inner(spec).count : 0;
  const std::int64_t dense = std::max(moe_layers < spec.layers ? shard.dense_inner(spec).count : 0, shared);
  const std::int64_t rows = tokens + 8;  // of a tile
  // Inputs and activated rows of a feed-forward, in f32 or as two bf16 parts.
  std::int64_t most = std::max(kLeast, rows * (padded(dense) + hidden) * kF32);
  if (moe_layers > 0) {
    // The same of every choice, an expert's rows filled up to a tile, and the lists that sort choices by expert.
    const std::int64_t choices = tokens * spec.experts_per_token + std::min<std::int64_t>(tokens * spec.experts_per_token, spec.experts) * 8;
    const std::int64_t lists = 16 * (choices + std::int64_t{2} * spec.experts) + 4096;
    most = std::max(most, choices * (padded(shard.expert_inner(spec).count) + hidden) * kF32 + lists);
  }
  const std::int64_t heads = shard.heads(spec).count;
  const std::int64_t widest = std::max({padded(heads * q_head_width(spec)), padded(heads * value_head_width(spec)), std::int64_t{spec.q_lora_rank}});
  most = std::max(most, rows * widest * kF32);
  // Attention of few tokens is cut along the context, until about twice the multiprocessors of the largest card are busy; of
  // more tokens than that it is not.
  constexpr std::int64_t kMostPieces = 320;
  const std::int64_t width = (spec.attention == AttentionKind::mla ? spec.kv_lora_rank : spec.head_dim) + 2;
  return std::max(most, kMostPieces * heads * width * kF32);
}

std::int64_t Scratch::bytes() const {
  std::int64_t sum = 0;
  for (const OwnedTensor* tensor : {&ids,
                                    &sequences,
                                    &positions,
                                    &wanted,
                                    &residual,
                                    &normed,
                                    &output,
                                    &q_compressed,
                                    &q,
                                    &k,
                                    &v,
                                    &q_latent,
                                    &attended_latent,
                                    &attended,
                                    &gate,
                                    &up,
                                    &router_logits,
                                    &expert_ids,
                                    &expert_weights,
                                    &expert_rows,
                                    &wanted_rows,
                                    &logits})
    sum += tensor->bytes();
  return sum;
}

}  // namespace moetune
