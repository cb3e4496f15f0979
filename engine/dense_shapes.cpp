#include "engine/dense_shapes.h"

#include "engine/folding.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

Slice all(std::int64_t count) { return {0, count}; }
Slice scaled(Slice slice, std::int64_t width) { return {slice.begin * width, slice.count * width}; }

FeedForwardShape feed_forward_shape(NumberType type, Packing packing, std::int64_t hidden, Slice inner) {
  return {.gate = {type, inner, all(hidden), packing},
          .up = {type, inner, all(hidden), packing},
          .down = {type, all(hidden), inner, packing}};
}

void add_gqa(const ModelSpec& spec, NumberType type, const Shard& shard, LayerShape& shape) {
  const Slice q_rows = scaled(shard.heads(spec), spec.head_dim);
  const Slice kv_rows = scaled(shard.kv_heads(spec), spec.head_dim);
  shape.q = {type, q_rows, all(spec.hidden)};
  shape.k = {type, kv_rows, all(spec.hidden)};
  shape.v = {type, kv_rows, all(spec.hidden)};
  shape.o = {type, all(spec.hidden), q_rows};
  if (spec.qk_norm) shape.f32_elements += std::int64_t{2} * spec.head_dim;
  if (spec.attention_bias) shape.f32_elements += q_rows.count + 2 * kv_rows.count + spec.hidden;
}

// The absorbed projections stay as fine as the checkpoint's unquantized numbers. What it ships quantized is
// bf16 on a GPU, as the activations are, and exact on a CPU. Tiles hold 16 rows, of which each head has whole
// ones or none.
MatrixShape absorbed(const ModelSpec& spec, Packing packing, std::int64_t heads, std::int64_t out,
                     std::int64_t in) {
  NumberType type = spec.dense_number_type();
  if (type != NumberType::f32 && type != NumberType::f16 && type != NumberType::bf16)
    type = packing == Packing::tiles ? NumberType::bf16 : NumberType::f32;
  const bool has_tiles = type != NumberType::f32 && out % kTileRows == 0;
  return {type, all(heads * out), all(in), has_tiles ? packing : Packing::rows};
}

void add_mla(const ModelSpec& spec, NumberType type, const Shard& shard, Packing packing, LayerShape& shape) {
  const Slice heads = shard.heads(spec);
  const Slice q_rows = scaled(heads, q_head_width(spec));
  const std::int64_t latent = std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim;
  if (spec.q_lora_rank > 0) {
    shape.q_a = {type, all(spec.q_lora_rank), all(spec.hidden)};
    shape.q_b = {type, q_rows, all(spec.q_lora_rank)};
    shape.f32_elements += spec.q_lora_rank;
    if (spec.attention_bias) shape.f32_elements += spec.q_lora_rank;
  } else {
    shape.q = {type, q_rows, all(spec.hidden)};
  }
  shape.kv_a = {type, all(latent), all(spec.hidden)};
  shape.o = {type, all(spec.hidden), scaled(heads, spec.v_head_dim)};
  shape.key_up = absorbed(spec, packing, heads.count, spec.kv_lora_rank, spec.qk_nope_dim);
  shape.value_up = absorbed(spec, packing, heads.count, spec.v_head_dim, spec.kv_lora_rank);
  shape.f32_elements += spec.kv_lora_rank;
  if (spec.attention_bias) shape.f32_elements += latent + spec.hidden;
}

std::int64_t bytes_of(const MatrixShape& shape) { return shape.exists() ? shape.layout().bytes : 0; }
std::int64_t bytes_of(const FeedForwardShape& shape) {
  return bytes_of(shape.gate) + bytes_of(shape.up) + bytes_of(shape.down);
}
constexpr std::int64_t kF32Bytes = 4;

}  // namespace

LayerShape layer_shape(const ModelSpec& spec, const EngineOptions& options, int layer, const Shard& shard) {
  const NumberType type = options.dense_quant.value_or(spec.dense_number_type());
  LayerShape shape;
  shape.f32_elements = std::int64_t{2} * spec.hidden;
  const Packing packing = packing_for(options);
  if (spec.attention == AttentionKind::mla)
    add_mla(spec, type, shard, packing, shape);
  else
    add_gqa(spec, type, shard, shape);
  for (MatrixShape* matrix : {&shape.q, &shape.k, &shape.v, &shape.q_a, &shape.q_b, &shape.kv_a, &shape.o})
    matrix->packing = packing;
  if (!spec.moe_layers[static_cast<std::size_t>(layer)]) {
    shape.dense = feed_forward_shape(type, packing, spec.hidden, shard.dense_inner(spec));
    return shape;
  }
  shape.router = {spec.table_number_type(), all(spec.experts), all(spec.hidden)};
  if (spec.routing != RoutingRule::softmax_top_k) shape.f32_elements += spec.experts;
  if (spec.synthetic_routing) shape.f32_elements += spec.experts;
  if (spec.shared_experts > 0)
    shape.shared = feed_forward_shape(type, packing, spec.hidden, shard.shared_inner(spec));
  return shape;
}

Packing packing_for(const EngineOptions& options) {
  return options.device == DeviceKind::cuda ? Packing::tiles : Packing::rows;
}

ModelShape model_shape(const ModelSpec& spec, const EngineOptions& options, const Shard& shard) {
  ModelShape shape;
  shape.embedding = {spec.table_number_type(), all(spec.vocabulary), all(spec.hidden)};
  if (!spec.tied_embeddings)
    shape.head = {spec.table_number_type(), shard.vocabulary(spec), all(spec.hidden), packing_for(options)};
  shape.f32_elements = spec.hidden + spec.rope.dim / 2;
  return shape;
}

std::int64_t dense_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard) {
  const ModelShape model = model_shape(spec, options, shard);
  std::int64_t bytes = bytes_of(model.embedding) + bytes_of(model.head) + model.f32_elements * kF32Bytes;
  for (int layer = 0; layer < spec.layers; ++layer) {
    if (weight_layer(spec, layer) != layer) continue;  // folded: the weights of an earlier one
    const LayerShape shape = layer_shape(spec, options, layer, shard);
    for (const MatrixShape* matrix : {&shape.q, &shape.k, &shape.v, &shape.q_a, &shape.q_b, &shape.kv_a,
                                      &shape.key_up, &shape.value_up, &shape.o, &shape.router})
      bytes += bytes_of(*matrix);
    bytes += bytes_of(shape.dense) + bytes_of(shape.shared) + shape.f32_elements * kF32Bytes;
  }
  return bytes;
}

NumberType expert_type(const ModelSpec& spec, const EngineOptions& options) {
  return options.expert_quant.value_or(spec.checkpoint_type);
}

ExpertLayout expert_layout(const ModelSpec& spec, const EngineOptions& options, const Shard& shard) {
  return ExpertLayout::of(expert_type(spec, options), spec.hidden, shard.expert_inner(spec).count,
                          packing_for(options));
}

}  // namespace moetune
