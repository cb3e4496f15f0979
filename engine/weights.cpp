// Start at load_weights(); Loader brings in one tensor at a time.
#include "engine/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "engine/dense_shapes.h"
#include "engine/file_reading.h"
#include "engine/matrix_packing.h"
#include "engine/tensor_names.h"
#include "kernels/rope.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

// Matrices are read and packed this many bytes at a time, so that loading needs little memory beside what it
// fills.
constexpr std::int64_t kPieceBytes = 1 << 20;

class Loader {
 public:
  Loader(Device& device, Cpu& host, const Checkpoint& checkpoint, const EngineOptions& options,
         Weights& weights)
      : device_(device),
        checkpoint_(checkpoint),
        host_(host),
        quantizes_(options.dense_quant),
        weights_(weights) {}

  // In the type the shape says when dense_quant asks for one, else as shipped.
  WeightMatrix matrix(const NamedTensor& name, MatrixShape shape) {
    if (!name.exists()) return {};
    const StoredMatrix source = stored(name);
    if (!quantizes_) shape.type = source.type;
    return packed(source, shape);
  }
  WeightMatrix as_shipped(const NamedTensor& name, MatrixShape shape) {
    if (!name.exists()) return {};
    const StoredMatrix source = stored(name);
    shape.type = source.type;
    return packed(source, shape);
  }

  FeedForwardWeights feed_forward(const NamedTensor& gate, const NamedTensor& up, const NamedTensor& down,
                                  const FeedForwardShape& shape) {
    return {matrix(gate, shape.gate), matrix(up, shape.up), matrix(down, shape.down)};
  }

  // Elements `part` of a vector, as f32.
  Tensor vector(const NamedTensor& name, const Slice& part) {
    if (!name.exists()) return {};
    const std::vector<float> values = values_of(name);
    return on_device({values.begin() + part.begin, values.begin() + part.begin + part.count}, {part.count});
  }
  Tensor vector(const NamedTensor& name) {
    return name.exists() ? vector(name, {0, name.shape.front()}) : Tensor();
  }

  // All elements of a vector or matrix as f32.
  std::vector<float> values_of(const NamedTensor& name) {
    StoredMatrix source = stored(name);
    source.in *= source.out;
    source.out = 1;
    const MatrixShape whole{NumberType::f32, {0, 1}, {0, source.in}};
    std::vector<float> values(static_cast<std::size_t>(whole.layout().bytes) / sizeof(float));
    read_matrix(files_, host_, source, whole, values.data());
    values.resize(static_cast<std::size_t>(source.in));
    return values;
  }

  Tensor on_device(const std::vector<float>& values, std::initializer_list<std::int64_t> shape) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
    std::byte* data = reserve(bytes);
    copy_to_device(device_, values.data(), data, bytes);
    return {data, NumberType::f32, shape};
  }

 private:
  StoredMatrix stored(const NamedTensor& name) const {
    const bool is_matrix = name.shape.size() == 2;
    return {.name = name.name,
            .extent = checkpoint_.extent(name.name),
            .type = checkpoint_.tensor(name.name).type(),
            .out = is_matrix ? name.shape[0] : 1,
            .in = name.shape.back()};
  }

  WeightMatrix packed(const StoredMatrix& source, const MatrixShape& shape) {
    const MatrixLayout layout = shape.layout();
    std::byte* data = reserve(layout.bytes);
    // Whole tiles, so that a piece of a tiled matrix is contiguous.
    const std::int64_t rows_per_piece =
        std::max<std::int64_t>(1, kPieceBytes / source.row_bytes() / kTileRows) * kTileRows;
    for (std::int64_t first = 0; first < shape.rows.count; first += rows_per_piece) {
      const std::int64_t rows = std::min(rows_per_piece, shape.rows.count - first);
      const MatrixShape piece{shape.type, {shape.rows.begin + first, rows}, shape.columns, shape.packing};
      const MatrixLayout part = piece.layout();
      staging_.resize(static_cast<std::size_t>(part.bytes));
      read_matrix(files_, host_, source, piece, staging_.data());
      if (layout.packing == Packing::tiles) {
        const TileLayout tiles = TileLayout::of(shape.type, rows, shape.columns.count);
        copy_to_device(device_, staging_.data(), data + first / kTileRows * tiles.tile_bytes,
                       tiles.tiles * tiles.tile_bytes);
        continue;
      }
      const std::int64_t scale_row_bytes = layout.scales_per_row * layout.scale_bytes;
      copy_to_device(device_, staging_.data(), data + first * layout.row_bytes, rows * layout.row_bytes);
      copy_to_device(device_, staging_.data() + part.scales_offset,
                     data + layout.scales_offset + first * scale_row_bytes, rows * scale_row_bytes);
    }
    return {data, layout};
  }

  std::byte* reserve(std::int64_t bytes) {
    weights_.memory.emplace_back(device_, bytes);
    weights_.bytes += bytes;
    return weights_.memory.back().data();
  }

  Device& device_;
  const Checkpoint& checkpoint_;
  Cpu& host_;
  std::optional<NumberType> quantizes_;
  Weights& weights_;
  FileSet files_;
  std::vector<std::byte> staging_;
};

// Splits kv_b (per head: key rows, then value rows) and turns the key part round, so that a query can be
// moved into the space of the compressed cache.
void load_absorbed(Loader& loader, const ModelSpec& spec, const Slice& heads, const NamedTensor& kv_b,
                   AttentionWeights& attention) {
  const std::vector<float> values = loader.values_of(kv_b);
  const auto rank = static_cast<std::size_t>(spec.kv_lora_rank);
  const auto nope = static_cast<std::size_t>(spec.qk_nope_dim);
  const auto value_width = static_cast<std::size_t>(spec.v_head_dim);
  const auto head_count = static_cast<std::size_t>(heads.count);
  std::vector<float> key_up(head_count * rank * nope);
  std::vector<float> value_up(head_count * value_width * rank);
  for (std::size_t head = 0; head < head_count; ++head) {
    const float* rows =
        values.data() + (static_cast<std::size_t>(heads.begin) + head) * (nope + value_width) * rank;
    for (std::size_t row = 0; row < nope; ++row)
      for (std::size_t column = 0; column < rank; ++column)
        key_up[(head * rank + column) * nope + row] = rows[row * rank + column];
    std::memcpy(value_up.data() + head * value_width * rank, rows + nope * rank,
                value_width * rank * sizeof(float));
  }
  attention.key_up = loader.on_device(key_up, {heads.count, spec.kv_lora_rank, spec.qk_nope_dim});
  attention.value_up = loader.on_device(value_up, {heads.count, spec.v_head_dim, spec.kv_lora_rank});
}

AttentionWeights load_attention(Loader& loader, const ModelSpec& spec, const LayerTensors& names,
                                const LayerShape& shape, const Shard& shard) {
  AttentionWeights attention;
  attention.q = loader.matrix(names.q, shape.q);
  attention.k = loader.matrix(names.k, shape.k);
  attention.v = loader.matrix(names.v, shape.v);
  attention.q_a = loader.matrix(names.q_a, shape.q_a);
  attention.q_b = loader.matrix(names.q_b, shape.q_b);
  attention.kv_a = loader.matrix(names.kv_a, shape.kv_a);
  attention.o = loader.matrix(names.o, shape.o);
  attention.q_bias = loader.vector(names.q_bias, shape.q.rows);
  attention.k_bias = loader.vector(names.k_bias, shape.k.rows);
  attention.v_bias = loader.vector(names.v_bias, shape.v.rows);
  attention.q_a_bias = loader.vector(names.q_a_bias);
  attention.kv_a_bias = loader.vector(names.kv_a_bias);
  if (shard.rank == 0) attention.o_bias = loader.vector(names.o_bias);
  attention.q_norm = loader.vector(names.q_norm);
  attention.k_norm = loader.vector(names.k_norm);
  attention.q_a_norm = loader.vector(names.q_a_norm);
  attention.kv_a_norm = loader.vector(names.kv_a_norm);
  if (names.kv_b.exists()) load_absorbed(loader, spec, shard.heads(spec), names.kv_b, attention);
  return attention;
}

LayerWeights load_layer(Loader& loader, const ModelSpec& spec, const EngineOptions& options, int layer,
                        const Shard& shard) {
  const LayerTensors names = layer_tensors(spec, layer);
  const LayerShape shape = layer_shape(spec, options, layer, shard);
  LayerWeights weights;
  weights.input_norm = loader.vector(names.input_norm);
  weights.post_attention_norm = loader.vector(names.post_attention_norm);
  weights.attention = load_attention(loader, spec, names, shape, shard);
  weights.dense = loader.feed_forward(names.dense_gate, names.dense_up, names.dense_down, shape.dense);
  weights.router = loader.as_shipped(names.router, shape.router);
  weights.router_bias = loader.vector(names.router_bias);
  weights.shared = loader.feed_forward(names.shared_gate, names.shared_up, names.shared_down, shape.shared);
  return weights;
}

std::optional<YarnParameters> yarn_parameters(const RopeSpec& rope) {
  if (!rope.yarn) return std::nullopt;
  const YarnScaling& yarn = *rope.yarn;
  return YarnParameters{.factor = yarn.factor,
                        .original_context = yarn.original_context,
                        .beta_fast = yarn.beta_fast,
                        .beta_slow = yarn.beta_slow,
                        .mscale = yarn.mscale,
                        .mscale_all_dim = yarn.mscale_all_dim,
                        .attention_factor = yarn.attention_factor,
                        .truncate = yarn.truncate};
}

// 1 / sqrt(head width); DeepSeek's MLA also undoes YaRN's temperature in the softmax.
double softmax_scale(const ModelSpec& spec) {
  double scale = 1.0 / std::sqrt(static_cast<double>(q_head_width(spec)));
  if (spec.attention == AttentionKind::mla && spec.rope.yarn && spec.rope.yarn->mscale_all_dim != 0.0) {
    const double mscale = yarn_mscale(spec.rope.yarn->factor, spec.rope.yarn->mscale_all_dim);
    scale *= mscale * mscale;
  }
  return scale;
}

}  // namespace

Weights load_weights(Device& device, Cpu& host, const Checkpoint& checkpoint, const EngineOptions& options,
                     const Shard& shard) {
  const ModelSpec& spec = checkpoint.spec();
  const ModelTensors names = model_tensors(spec);
  const ModelShape shape = model_shape(spec, options, shard);
  Weights weights;
  Loader loader(device, host, checkpoint, options, weights);
  weights.embedding = loader.as_shipped(names.embedding, shape.embedding);
  if (shape.head.exists()) {
    weights.head = loader.as_shipped(names.head, shape.head);
  } else {
    const Slice rows = shard.vocabulary(spec);
    weights.head = {weights.embedding.row_values(rows.begin), weights.embedding.layout};
    weights.head.layout.out = rows.count;
  }
  weights.final_norm = loader.vector(names.final_norm);
  const RopeFrequencies rope = rope_frequencies(spec.rope.theta, spec.rope.dim, yarn_parameters(spec.rope));
  weights.rope_frequencies = loader.on_device(rope.radians_per_position, {spec.rope.dim / 2});
  weights.rope_scale = static_cast<float>(rope.attention_factor);
  weights.softmax_scale = static_cast<float>(softmax_scale(spec));
  for (int layer = 0; layer < spec.layers; ++layer)
    weights.layers.push_back(load_layer(loader, spec, options, layer, shard));
  return weights;
}

}  // namespace moetune
