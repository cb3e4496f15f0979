// Shape and number type of everything one rank holds beside routed experts: the one list that both the loader
// (weights.h) and the memory plan read, so that the plan cannot drift from what is allocated.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/shard.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// Part of a checkpoint matrix (out, in) that a rank keeps, and how.
struct MatrixShape {
  NumberType type = NumberType::f32;
  Slice rows;
  Slice columns;
  Packing packing = Packing::rows;

  bool exists() const { return rows.count > 0; }
  MatrixLayout layout() const { return MatrixLayout::of(type, rows.count, columns.count, packing); }
};

struct FeedForwardShape {
  MatrixShape gate;  // (inner part, hidden)
  MatrixShape up;
  MatrixShape down;  // (hidden, inner part)
};

struct LayerShape {
  MatrixShape q;       // gqa, and mla without q_lora: (heads part, hidden)
  MatrixShape k;       // gqa
  MatrixShape v;       // gqa
  MatrixShape q_a;     // mla with q_lora; replicated
  MatrixShape q_b;     // mla with q_lora: (heads part, q_lora_rank)
  MatrixShape kv_a;    // mla; replicated
  MatrixShape o;       // (hidden, heads part)
  MatrixShape key_up;  // mla: (heads part * kv_lora_rank, qk_nope_dim), turned round per head; not quantized
  MatrixShape value_up;  // mla: (heads part * v_head_dim, kv_lora_rank)
  FeedForwardShape dense;
  FeedForwardShape shared;
  MatrixShape router;             // replicated, never quantized
  std::int64_t f32_elements = 0;  // norms, biases, router bias; favours of synthetic routing, as wide
};
LayerShape layer_shape(const ModelSpec& spec, const EngineOptions& options, int layer, const Shard& shard);

struct ModelShape {
  MatrixShape embedding;  // replicated, checkpoint type
  MatrixShape head;  // (vocabulary part, hidden), checkpoint type; absent when tied: rows of the embedding
  std::int64_t f32_elements = 0;  // final norm, rotary frequencies
};
ModelShape model_shape(const ModelSpec& spec, const EngineOptions& options, const Shard& shard);

// How matrices lie where these options run: tiles for a GPU's tensor cores. Embeddings and routers stay in
// rows everywhere.
Packing packing_for(const EngineOptions& options);

// Bytes of all of it on one rank.
std::int64_t dense_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard);

// Layout of one routed expert on one rank.
NumberType expert_type(const ModelSpec& spec, const EngineOptions& options);
ExpertLayout expert_layout(const ModelSpec& spec, const EngineOptions& options, const Shard& shard);

}  // namespace moetune
