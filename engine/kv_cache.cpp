#include "engine/kv_cache.h"

namespace moetune {

KvCache::Shape KvCache::Shape::of(const ModelSpec& spec, const EngineOptions& options, const Shard& shard,
                                  int sequences, int context_tokens) {
  Shape shape{.layers = spec.layers, .sequences = sequences, .context = context_tokens};
  // On a GPU the cache is read at the memory's rate: bf16, unless the checkpoint is finer than that.
  const bool is_half = options.device == DeviceKind::cuda && spec.checkpoint_type != NumberType::f32;
  shape.type = options.kv_type.value_or(is_half ? NumberType::bf16 : NumberType::f32);
  if (spec.attention == AttentionKind::mla) {
    shape.key_width = std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim;
  } else {
    shape.heads = shard.kv_heads(spec).count;
    shape.key_width = shape.heads * spec.head_dim;
    shape.value_width = shape.key_width;
  }
  return shape;
}

std::int64_t KvCache::Shape::bytes() const {
  const std::int64_t scales = type == NumberType::int8 ? heads * element_bytes(NumberType::f32) : 0;
  return layers * sequences * context *
         ((key_width + value_width) * element_bytes(type) + (value_width > 0 ? 2 : 1) * scales);
}

KvCache::KvCache(Device& device, const Shape& shape)
    : shape_(shape),
      keys_(device, shape.type, {shape.layers, shape.sequences, shape.context, shape.key_width}) {
  if (shape.value_width > 0)
    values_ =
        OwnedTensor(device, shape.type, {shape.layers, shape.sequences, shape.context, shape.value_width});
  if (shape.type != NumberType::int8) return;
  for (OwnedTensor* scales : {&key_scales_, &value_scales_})
    if (scales == &key_scales_ || shape.value_width > 0)
      *scales =
          OwnedTensor(device, NumberType::f32, {shape.layers, shape.sequences, shape.context, shape.heads});
}

}  // namespace moetune
