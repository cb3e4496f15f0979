// What attention remembers of every sequence, per layer: keys and values (gqa) or one compressed row (mla).
#pragma once

#include <cstdint>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/shard.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

class KvCache {
 public:
  struct Shape {
    std::int64_t layers = 0;
    std::int64_t sequences = 0;
    std::int64_t context = 0;    // tokens
    std::int64_t key_width = 0;  // gqa: kv_heads part * head_dim; mla: kv_lora_rank + qk_rope_dim, replicated
    std::int64_t value_width = 0;  // gqa: as key_width; mla: 0, values are read from the same row
    std::int64_t heads = 1;        // that share a row's width; int8 has a scale for each
    NumberType type = NumberType::f32;

    static Shape of(const ModelSpec& spec, const EngineOptions& options, const Shard& shard, int sequences,
                    int context_tokens);
    std::int64_t bytes() const;
  };

  KvCache() = default;
  KvCache(Device& device, const Shape& shape);

  Tensor keys(int layer) const {
    return layer_of(keys_, layer, shape_.key_width);
  }  // (sequences, context, key_width)
  Tensor values(int layer) const { return layer_of(values_, layer, shape_.value_width); }
  // (sequences, context, heads) f32 where the type has scales, else empty.
  Tensor key_scales(int layer) const { return layer_of(key_scales_, layer, shape_.heads); }
  Tensor value_scales(int layer) const { return layer_of(value_scales_, layer, shape_.heads); }
  std::int64_t bytes() const {
    return keys_.bytes() + values_.bytes() + key_scales_.bytes() + value_scales_.bytes();
  }

 private:
  Tensor layer_of(const OwnedTensor& all, int layer, std::int64_t width) const {
    if (all.view().empty()) return {};
    return all.view().rows(layer, 1).reshaped({shape_.sequences, shape_.context, width});
  }

  Shape shape_;
  OwnedTensor keys_;  // (layers, sequences, context, width)
  OwnedTensor values_;
  OwnedTensor key_scales_;  // (layers, sequences, context, heads)
  OwnedTensor value_scales_;
};

}  // namespace moetune
