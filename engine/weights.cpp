// Start at load_weights(); Loader brings in one tensor at a time.
#include "engine/weights.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "engine/dense_shapes.h"
#include "engine/file_reading.h"
#include "engine/folding.h"
#include "engine/matrix_source.h"
#include "engine/synthetic_routing.h"
#include "engine/tensor_names.h"
#include "kernels/rope.h"
#include "kernels/tile_packing.h"

namespace moetune {
namespace {

constexpr float kBiasDeviation = 0.02F;  // of generated biases: enough that experts differ in favour

class Loader {
 public:
  Loader(Device& device, Cpu& host, const Checkpoint& checkpoint, const EngineOptions& options,
         Weights& weights)
      : device_(device),
        checkpoint_(checkpoint),
        spec_(checkpoint.spec()),
        host_(host),
        quantizes_(options.dense_quant),
        weights_(weights) {}

  void begin_layer(int layer) { layer_ = layer; }

  // In the type the shape says when dense_quant asks for one, else as shipped.
  WeightMatrix matrix(const NamedTensor& name, MatrixShape shape) {
    if (!name.exists()) return {};
    const MatrixSource source = dense(name);
    if (!quantizes_) shape.type = shipped_type(source);
    return loaded(source, shape);
  }
  WeightMatrix as_shipped(const NamedTensor& name, MatrixShape shape) {
    return as_shipped(name, shape, keeps_size(name));
  }
  WeightMatrix as_shipped(const NamedTensor& name, MatrixShape shape, float deviation) {
    const MatrixSource source =
        matrix_source(checkpoint_, name, layer_, spec_.table_number_type(), deviation);
    shape.type = shipped_type(source);
    return loaded(source, shape);
  }

  FeedForwardWeights feed_forward(const NamedTensor& gate, const NamedTensor& up, const NamedTensor& down,
                                  const FeedForwardShape& shape) {
    return {matrix(gate, shape.gate), matrix(up, shape.up), matrix(down, shape.down)};
  }

  // Elements `part` of a vector, as f32.
  Tensor bias(const NamedTensor& name, const Slice& part) {
    if (!name.exists()) return {};
    const std::vector<float> values =
        values_of(files_, host_, matrix_source(checkpoint_, name, layer_, NumberType::f32, kBiasDeviation));
    return on_device({values.begin() + part.begin, values.begin() + part.begin + part.count}, {part.count});
  }
  Tensor bias(const NamedTensor& name) {
    return name.exists() ? bias(name, {0, name.shape.front()}) : Tensor();
  }
  // A generated norm changes nothing.
  Tensor norm(const NamedTensor& name) {
    if (!name.exists() || !spec_.is_synthetic) return bias(name);
    return on_device(std::vector<float>(static_cast<std::size_t>(name.shape.front()), 1.0F),
                     {name.shape.front()});
  }

  std::vector<float> values(const NamedTensor& name) { return values_of(files_, host_, dense(name)); }

  Tensor on_device(const std::vector<float>& values, std::initializer_list<std::int64_t> shape) {
    return placed(values, NumberType::f32, shape);
  }
  Tensor on_device(const std::vector<std::int32_t>& values) {
    return placed(values, NumberType::i32, {static_cast<std::int64_t>(values.size())});
  }

  // In the type and packing of the shape, which is all of it and unquantized.
  WeightMatrix packed(const std::vector<float>& values, MatrixShape shape, const NamedTensor& name) {
    const MatrixLayout layout = shape.layout();
    shape.packing = Packing::rows;
    std::vector<std::byte> rows(static_cast<std::size_t>(shape.layout().bytes));
    pack_matrix(
        host_,
        Tensor(const_cast<float*>(values.data()), NumberType::f32, {shape.rows.count, shape.columns.count}),
        shape, rows.data(), name.name);
    if (layout.packing == Packing::tiles) {
      std::vector<std::byte> tiles(static_cast<std::size_t>(layout.bytes));
      pack_tiles(host_, {rows.data(), shape.layout()}, tiles.data());
      rows.swap(tiles);
    }
    std::byte* data = reserve(layout.bytes);
    copy_to_device(device_, rows.data(), data, layout.bytes);
    return {data, layout};
  }

  Cpu& host() { return host_; }
  std::uint64_t seed() const { return checkpoint_.seed(); }

 private:
  MatrixSource dense(const NamedTensor& name) const {
    return matrix_source(checkpoint_, name, layer_, spec_.dense_number_type(), keeps_size(name));
  }

  template <class T>
  Tensor placed(const std::vector<T>& values, NumberType type, std::initializer_list<std::int64_t> shape) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    std::byte* data = reserve(bytes);
    copy_to_device(device_, values.data(), data, bytes);
    return {data, type, shape};
  }

  WeightMatrix loaded(const MatrixSource& source, const MatrixShape& shape) {
    const MatrixLayout layout = shape.layout();
    std::byte* data = reserve(layout.bytes);
    load_matrix(files_, device_, host_, source, shape, data);
    return {data, layout};
  }

  std::byte* reserve(std::int64_t bytes) {
    weights_.memory.emplace_back(device_, bytes);
    weights_.bytes += bytes;
    return weights_.memory.back().data();
  }

  Device& device_;
  const Checkpoint& checkpoint_;
  const ModelSpec& spec_;
  Cpu& host_;
  std::optional<NumberType> quantizes_;
  Weights& weights_;
  FileSet files_;
  int layer_ = 0;
};

// Splits kv_b (per head: key rows, then value rows) and turns the key part round, so that a query can be
// moved into the space of the compressed cache.
void load_absorbed(Loader& loader, const ModelSpec& spec, const Slice& heads, const NamedTensor& kv_b,
                   const LayerShape& shape, AttentionWeights& attention) {
  const std::vector<float> values = loader.values(kv_b);
  const auto rank = static_cast<std::size_t>(spec.kv_lora_rank);
  const auto nope = static_cast<std::size_t>(spec.qk_nope_dim);
  const auto value_width = static_cast<std::size_t>(spec.v_head_dim);
  const auto head_count = static_cast<std::size_t>(heads.count);
  std::vector<float> key_up(head_count * rank * nope);
  std::vector<float> value_up(head_count * value_width * rank);
  loader.host().pool().parallel_for(heads.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto head = static_cast<std::size_t>(begin); head < static_cast<std::size_t>(end); ++head) {
      const float* rows =
          values.data() + (static_cast<std::size_t>(heads.begin) + head) * (nope + value_width) * rank;
      for (std::size_t row = 0; row < nope; ++row)
        for (std::size_t column = 0; column < rank; ++column)
          key_up[(head * rank + column) * nope + row] = rows[row * rank + column];
      std::memcpy(value_up.data() + head * value_width * rank, rows + nope * rank,
                  value_width * rank * sizeof(float));
    }
  });
  attention.key_up = loader.packed(key_up, shape.key_up, kv_b);
  attention.value_up = loader.packed(value_up, shape.value_up, kv_b);
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
  attention.q_bias = loader.bias(names.q_bias, shape.q.rows);
  attention.k_bias = loader.bias(names.k_bias, shape.k.rows);
  attention.v_bias = loader.bias(names.v_bias, shape.v.rows);
  attention.q_a_bias = loader.bias(names.q_a_bias);
  attention.kv_a_bias = loader.bias(names.kv_a_bias);
  if (shard.rank == 0) attention.o_bias = loader.bias(names.o_bias);
  attention.q_norm = loader.norm(names.q_norm);
  attention.k_norm = loader.norm(names.k_norm);
  attention.q_a_norm = loader.norm(names.q_a_norm);
  attention.kv_a_norm = loader.norm(names.kv_a_norm);
  if (names.kv_b.exists()) load_absorbed(loader, spec, shard.heads(spec), names.kv_b, shape, attention);
  return attention;
}

LayerWeights load_layer(Loader& loader, const ModelSpec& spec, const EngineOptions& options, int layer,
                        const Shard& shard) {
  loader.begin_layer(layer);
  const LayerTensors names = layer_tensors(spec, layer);
  const LayerShape shape = layer_shape(spec, options, layer, shard);
  LayerWeights weights;
  weights.input_norm = loader.norm(names.input_norm);
  weights.post_attention_norm = loader.norm(names.post_attention_norm);
  weights.attention = load_attention(loader, spec, names, shape, shard);
  weights.dense = loader.feed_forward(names.dense_gate, names.dense_up, names.dense_down, shape.dense);
  if (names.router.exists()) weights.router = loader.as_shipped(names.router, shape.router);
  weights.router_bias = loader.bias(names.router_bias);
  if (names.router.exists() && spec.synthetic_routing)
    weights.router_favour = loader.on_device(synthetic_favour(spec, loader.seed(), layer));
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
  weights.seed = checkpoint.seed();
  Loader loader(device, host, checkpoint, options, weights);
  // A look-up keeps the size of its rows: generated tokens are as unlike as tokens are, and so is their
  // routing.
  weights.embedding = spec.tied_embeddings ? loader.as_shipped(names.embedding, shape.embedding)
                                           : loader.as_shipped(names.embedding, shape.embedding, 1.0F);
  if (shape.head.exists()) {
    weights.head = loader.as_shipped(names.head, shape.head);
  } else {
    const Slice rows = shard.vocabulary(spec);
    weights.head = {weights.embedding.row_values(rows.begin), weights.embedding.layout};
    weights.head.layout.out = rows.count;
  }
  weights.final_norm = loader.norm(names.final_norm);
  const RopeFrequencies rope = rope_frequencies(spec.rope.theta, spec.rope.dim, yarn_parameters(spec.rope));
  weights.rope_frequencies = loader.on_device(rope.radians_per_position, {spec.rope.dim / 2});
  weights.rope_scale = static_cast<float>(rope.attention_factor);
  weights.softmax_scale = static_cast<float>(softmax_scale(spec));
  for (int layer = 0; layer < spec.layers; ++layer) {
    const int own = weight_layer(spec, layer);
    weights.layers.push_back(own < layer ? weights.layers[static_cast<std::size_t>(own)]
                                         : load_layer(loader, spec, options, layer, shard));
  }
  return weights;
}

}  // namespace moetune
