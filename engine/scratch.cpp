#include "engine/scratch.h"

#include <algorithm>

#include "engine/dense_shapes.h"
#include "kernels/dense_choice.h"

namespace moetune {
namespace {

// Of rows of projections: columns of each, from multiples of four, so that every row's part is aligned.
std::array<std::int64_t, 4> projection_begins(const ModelSpec& spec, const Shard& shard) {
  const std::int64_t q = shard.heads(spec).count * q_head_width(spec);
  const std::int64_t kv = shard.kv_heads(spec).count * std::int64_t{spec.head_dim};
  const std::int64_t latent = std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim;
  std::array<std::int64_t, 3> widths{q, kv, kv};
  if (spec.attention == AttentionKind::mla) widths = {spec.q_lora_rank > 0 ? spec.q_lora_rank : q, latent, 0};
  std::array<std::int64_t, 4> begins{};
  for (std::size_t i = 0; i < widths.size(); ++i) begins[i + 1] = begins[i] + (widths[i] + 3) / 4 * 4;
  return begins;
}

}  // namespace

ProjectedHeads projected_heads(const Scratch& scratch, const ModelSpec& spec, const Shard& shard,
                               std::int64_t tokens) {
  const std::array<std::int64_t, 4> begins = projection_begins(spec, shard);
  const Tensor all = scratch.projected.view();
  const auto part = [&](std::size_t index, std::int64_t heads, std::int64_t width) {
    const std::int64_t begin = scratch.is_side_by_side ? begins[index] : begins[index] * all.dim(0);
    const Tensor rows(all.f32() + begin, NumberType::f32, {tokens, heads, width});
    return scratch.is_side_by_side ? rows.with_row_stride(begins.back()) : rows;
  };
  const std::int64_t heads = shard.heads(spec).count;
  ProjectedHeads projected;
  if (spec.attention == AttentionKind::mla) {
    projected.k = part(1, 1, std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim);
    if (spec.q_lora_rank > 0) {
      projected.q = first_rows(scratch.q, {tokens, heads, q_head_width(spec)});
      projected.q_compressed = flat_heads(part(0, 1, spec.q_lora_rank));
    } else {
      projected.q = part(0, heads, q_head_width(spec));
    }
    return projected;
  }
  projected.q = part(0, heads, spec.head_dim);
  projected.k = part(1, shard.kv_heads(spec).count, spec.head_dim);
  projected.v = part(2, shard.kv_heads(spec).count, spec.head_dim);
  return projected;
}

Tensor flat_heads(const Tensor& heads) {
  const Tensor flat(heads.data(), heads.type(), {heads.dim(0), heads.dim(1) * heads.dim(2)});
  return flat.with_row_stride(heads.stride(0));
}

GatedRows gated_rows(const Scratch& scratch, std::int64_t tokens, std::int64_t inner) {
  const Tensor all = scratch.gate_up.view();
  if (scratch.is_side_by_side) {
    const Tensor both = first_rows(scratch.gate_up, {tokens, 2 * inner});
    return {both.columns(0, inner), both.columns(inner, inner)};
  }
  return {first_rows(scratch.gate_up, {tokens, inner}),
          Tensor(all.f32() + all.dim(0) * all.dim(1) / 2, NumberType::f32, {tokens, inner})};
}

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
      {&Scratch::projected, f32, {tokens, projection_begins(spec, shard).back(), 1}},
      {&Scratch::attended, f32, {tokens, heads, value_head_width(spec)}},
      {&Scratch::wanted_rows, f32, {logit_rows, spec.hidden, 1}},
      {&Scratch::logits, f32, {logit_rows, shard.vocabulary(spec).count, 1}},
  };
  if (spec.attention == AttentionKind::mla) {
    if (spec.q_lora_rank > 0) items.push_back({&Scratch::q, f32, {tokens, heads, q_head_width(spec)}});
    items.push_back({&Scratch::q_latent, f32, {tokens, heads, spec.kv_lora_rank}});
    items.push_back({&Scratch::attended_latent, f32, {tokens, heads, spec.kv_lora_rank}});
  }
  const int moe_layers = spec.moe_layer_count();
  const std::int64_t dense = moe_layers < spec.layers ? shard.dense_inner(spec).count : 0;
  const std::int64_t shared = moe_layers > 0 ? shard.shared_inner(spec).count : 0;
  if (const std::int64_t inner = std::max(dense, shared); inner > 0) {
    items.push_back({&Scratch::gate_up, f32, {tokens, 2 * inner, 1}});
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
  scratch.is_side_by_side = !std::holds_alternative<Cpu>(device);
  for (const ScratchItem& item : items)
    scratch.*item.member = OwnedTensor(device, item.type, {item.shape[0], item.shape[1], item.shape[2]});
  return scratch;
}

namespace {

// The largest of the products that cuBLAS does (kernels/dense_choice.h), together where they read the same
// rows.
std::int64_t cublas_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard,
                          std::int64_t tokens) {
  std::int64_t most = 0;
  const OwnKernels own = own_kernels();
  const auto add = [&](std::initializer_list<const MatrixShape*> matrices) {
    DenseShape shape;
    for (const MatrixShape* matrix : matrices)
      if (matrix->exists()) shape = {matrix->type, shape.out + matrix->rows.count, matrix->columns.count};
    if (shape.out > 0 && cublas_pays(shape, tokens, own))
      most = std::max(most, cublas_scratch(shape, tokens).bytes);
  };
  for (int layer = 0; layer < spec.layers; ++layer) {
    const LayerShape shape = layer_shape(spec, options, layer, shard);
    add({&shape.q, &shape.k, &shape.v, &shape.q_a,
         &shape.kv_a});  // what a kind of attention has not does not exist
    add({&shape.q_b});
    add({&shape.o});
    for (const FeedForwardShape* ffn : {&shape.dense, &shape.shared}) {
      if (!ffn->gate.exists()) continue;
      const MatrixLayout gate = ffn->gate.layout();
      if (!cublas_pays_for_ffn({gate.type, gate.out, gate.in}, tokens, own)) continue;
      most = std::max({most, cublas_scratch({gate.type, 2 * gate.out, gate.in}, tokens).bytes,
                       cublas_scratch({gate.type, gate.in, gate.out}, tokens).bytes});
    }
  }
  if (const MatrixShape head = model_shape(spec, options, shard).head; head.packing == Packing::tiles)
    add({&head});
  return most > 0 && why_no_cublas().empty() ? most : 0;
}

}  // namespace

std::int64_t op_scratch_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard,
                              std::int64_t tokens) {
  if (options.device == DeviceKind::cpu) return 0;
  constexpr std::int64_t kF32 = 4;
  constexpr std::int64_t kLeast = std::int64_t{4}
                                  << 20;  // partial sums of products that are cut along their inputs
  const auto padded = [](std::int64_t width) { return (width + 255) / 256 * 256; };
  const std::int64_t hidden = padded(spec.hidden);
  const int moe_layers = spec.moe_layer_count();
  const std::int64_t shared = moe_layers > 0 ? shard.shared_inner(spec).count : 0;
  const std::int64_t dense = std::max(moe_layers < spec.layers ? shard.dense_inner(spec).count : 0, shared);
  const std::int64_t rows = tokens + 8;  // of a tile
  // Inputs and activated rows of a feed-forward, in f32 or as two bf16 parts.
  std::int64_t most = std::max(kLeast, rows * (padded(dense) + hidden) * kF32);
  if (moe_layers > 0) {
    // The same of every choice, an expert's rows filled up to a tile, and the lists that sort choices by
    // expert.
    const std::int64_t choices = tokens * spec.experts_per_token +
                                 std::min<std::int64_t>(tokens * spec.experts_per_token, spec.experts) * 8;
    const std::int64_t lists = 16 * (choices + std::int64_t{2} * spec.experts) + 4096;
    most = std::max(most, choices * (padded(shard.expert_inner(spec).count) + hidden) * kF32 + lists);
  }
  const std::int64_t heads = shard.heads(spec).count;
  const std::int64_t widest =
      std::max({padded(heads * q_head_width(spec)), padded(heads * value_head_width(spec)),
                std::int64_t{spec.q_lora_rank}});
  most = std::max(most, rows * widest * kF32);
  // Attention of few tokens is cut along the context, until about twice the multiprocessors of the largest
  // card are busy; of more tokens than that it is not.
  constexpr std::int64_t kMostPieces = 320;
  const std::int64_t width = (spec.attention == AttentionKind::mla ? spec.kv_lora_rank : spec.head_dim) + 2;
  most = std::max(most, kMostPieces * heads * width * kF32);
  return std::max(most, cublas_bytes(spec, options, shard, tokens));
}

std::int64_t Scratch::bytes() const {
  std::int64_t sum = 0;
  for (const OwnedTensor* tensor :
       {&ids, &sequences, &positions, &wanted, &residual, &normed, &output, &projected, &q, &q_latent,
        &attended_latent, &attended, &gate_up, &router_logits, &expert_ids, &expert_weights, &expert_rows,
        &wanted_rows, &logits})
    sum += tensor->bytes();
  return sum;
}

}  // namespace moetune
