// What a rank loads is the checkpoint's matrix, packed as a whole and cut: whatever pieces it was read in.
#include "engine/weights.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/tensor_names.h"
#include "kernels/quantize.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace moetune::testing {
namespace {

std::vector<float> dequantized(const WeightMatrix& w) {
  std::vector<float> values(static_cast<std::size_t>(w.layout.out * w.layout.in));
  for (std::int64_t row = 0; row < w.layout.out; ++row)
    dequantize_row(w, row, values.data() + row * w.layout.in);
  return values;
}

// Rows and columns of the whole matrix after it was packed in one go.
std::vector<float> expected_part(const Tensor& source, NumberType type, const Slice& rows,
                                 const Slice& columns) {
  const MatrixLayout layout = MatrixLayout::of(type, source.dim(0), source.dim(1));
  std::vector<std::byte> packed(static_cast<std::size_t>(layout.bytes));
  Cpu cpu(1);
  run(cpu, Quantize{.x = source, .y = packed.data(), .layout = layout});
  const std::vector<float> whole = dequantized({packed.data(), layout});
  std::vector<float> part;
  for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row)
    part.insert(part.end(), whole.begin() + row * layout.in + columns.begin,
                whole.begin() + row * layout.in + columns.begin + columns.count);
  return part;
}

// Wide enough that its dense matrices are read in several pieces.
nlohmann::json wide_model() {
  nlohmann::json config = splittable_mla();
  config["intermediate_size"] = 9216;
  return config;
}

TEST(Weights, AreThePackedMatricesOfTheCheckpoint) {
  const TemporaryDirectory folder;
  write_random_checkpoint(folder.path().string(), wide_model(), 5);
  const Checkpoint checkpoint(folder.path().string());
  const ModelSpec& spec = checkpoint.spec();
  const LayerTensors dense = layer_tensors(spec, 0);
  const LayerTensors routed = layer_tensors(spec, 1);
  for (const char* quant : {"checkpoint", "int8", "int4_g32", "f32"}) {
    const EngineOptions options = options_with({{"dense_quant", quant}});
    const NumberType type = options.dense_quant.value_or(NumberType::bf16);
    for (const Shard& shard : {Shard{0, 1}, Shard{0, 2}, Shard{1, 2}}) {
      // int4_g32 groups do not survive a cut of the attention's output: that split is refused elsewhere.
      if (shard.ranks == 2 && quantization_group(type) > 0) continue;
      Device device = Cpu(1);
      Cpu host(1);
      const Weights weights = load_weights(device, host, checkpoint, options, shard);
      const auto expect_loaded = [&](const WeightMatrix& loaded, const NamedTensor& name, NumberType as,
                                     const Slice& rows, const Slice& columns) {
        EXPECT_EQ(loaded.layout.type, as) << name.name;
        expect_identical(dequantized(loaded), expected_part(checkpoint.tensor(name.name), as, rows, columns),
                         name.name + " as " + quant);
      };
      const Slice hidden{0, spec.hidden};
      const Slice inner = shard.dense_inner(spec);
      const Slice heads = shard.heads(spec);
      const Slice values{heads.begin * spec.v_head_dim, heads.count * spec.v_head_dim};
      const LayerWeights& first = weights.layers[0];
      expect_loaded(first.dense.gate, dense.dense_gate, type, inner, hidden);
      expect_loaded(first.dense.up, dense.dense_up, type, inner, hidden);
      expect_loaded(first.dense.down, dense.dense_down, type, hidden, inner);
      expect_loaded(first.attention.o, dense.o, type, hidden, values);
      const LayerWeights& second = weights.layers[1];
      expect_loaded(second.shared.down, routed.shared_down, type, hidden, shard.shared_inner(spec));
      expect_loaded(second.router, routed.router, NumberType::bf16, {0, spec.experts}, hidden);
      expect_loaded(weights.embedding, model_tensors(spec).embedding, NumberType::bf16, {0, spec.vocabulary},
                    hidden);
      expect_loaded(weights.head, model_tensors(spec).head, NumberType::bf16, shard.vocabulary(spec), hidden);
      EXPECT_EQ(second.attention.o_bias.empty(), shard.rank != 0)
          << "a bias on every rank would be added twice";
    }
  }
}

TEST(Weights, ThatDoNotFitTheTypeAreNamed) {
  const TemporaryDirectory folder;
  nlohmann::json config = splittable_gqa();
  write_random_checkpoint(folder.path().string(), config, 5,
                          [](const std::string& name, std::size_t index, float drawn) {
                            if (name == "model.layers.2.self_attn.o_proj.weight" && index == 128 * 3 + 5)
                              return 1e30F;
                            if (name == "model.layers.3.mlp.experts.4.up_proj.weight" && index == 60 * 2 + 1)
                              return 1e30F;
                            return drawn;
                          });
  const auto checkpoint = open_checkpoint(folder.path().string());
  const auto refusal = [&](const Settings& settings) {
    return message_of<InputError>(
        [&] { Engine(checkpoint, options_with(settings), {.context_tokens = 8, .step_tokens = 8}); });
  };
  const std::string dense = refusal({{"dense_quant", "int4"}});
  EXPECT_TRUE(has_text(dense, "model.layers.2.self_attn.o_proj.weight"));
  EXPECT_TRUE(has_text(dense, "row 3"));
  const std::string expert = refusal({{"expert_quant", "int4"}});
  EXPECT_TRUE(has_text(expert, "up of expert 4 in layer 3"));
  EXPECT_TRUE(has_text(expert, "row 2"));
}

}  // namespace
}  // namespace moetune::testing
