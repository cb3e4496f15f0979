// Presets: their geometry against what was published, overrides, identity, and refusals.
#include "engine/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "engine/facts/error.h"
#include "engine/tensor_names.h"
#include "tests/support/message_of.h"
#include "tests/support/small_presets.h"

namespace moetune {
namespace {
using namespace testing;

double elements_of(const NamedTensor& tensor) {
  if (!tensor.exists()) return 0.0;
  return std::accumulate(
      tensor.shape.begin(), tensor.shape.end(), 1.0,
      [](double product, std::int64_t length) { return product * static_cast<double>(length); });
}

// Parameters in all, and those that one token uses: no embedding table, the chosen experts only.
struct Parameters {
  double total = 0.0;
  double active = 0.0;
};
Parameters parameters_of(const ModelSpec& spec) {
  const ModelTensors model = model_tensors(spec);
  Parameters count;
  const double head = elements_of(model.head);
  count.total = head + elements_of(model.embedding);
  count.active = head;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const LayerTensors l = layer_tensors(spec, layer);
    for (const NamedTensor* tensor :
         {&l.q, &l.k, &l.v, &l.q_a, &l.q_b, &l.kv_a, &l.kv_b, &l.o, &l.dense_gate, &l.dense_up, &l.dense_down,
          &l.router, &l.shared_gate, &l.shared_up, &l.shared_down}) {
      count.total += elements_of(*tensor);
      count.active += elements_of(*tensor);
    }
    if (!spec.moe_layers[static_cast<std::size_t>(layer)]) continue;
    count.total += static_cast<double>(spec.experts) * static_cast<double>(spec.expert_parameters());
    count.active +=
        static_cast<double>(spec.experts_per_token) * static_cast<double>(spec.expert_parameters());
  }
  return count;
}

// Billions, from the models' own cards and papers, which round them. Active counts there may include the
// embedding, so they are compared loosely; those of DeepSeek-V4 not at all, its attention stands for the
// published one in bytes.
TEST(Presets, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, std::pair<double, double>> published{
      {"mixtral-8x7b", {46.7, 12.9}},     {"qwen3-30b-a3b", {30.5, 3.3}}, {"olmoe-1b-7b", {6.9, 1.3}},
      {"deepseek-v2-lite", {15.7, 2.4}},  {"deepseek-v3", {671.0, 37.0}}, {"deepseek-v4-flash", {284.0, 0.0}},
      {"deepseek-v4-pro", {1600.0, 0.0}}, {"gpt-oss-20b", {20.9, 3.6}},   {"gpt-oss-120b", {116.8, 5.1}},
      {"llama-3-8b", {8.03, 7.5}}};
  for (const auto& [name, billions] : published) {
    const Parameters count = parameters_of(open_preset(name).spec);
    EXPECT_NEAR(count.total / 1e9 / billions.first, 1.0, 0.03) << name;
    if (billions.second > 0.0) {
      EXPECT_NEAR(count.active / 1e9 / billions.second, 1.0, 0.13) << name;
    }
  }
}

TEST(Presets, EveryFileOpensAndSaysWhereItIsFrom) {
  const std::vector<std::string> names = preset_names();
  EXPECT_EQ(names.size(), 11U);
  std::set<std::string> hashes;
  for (const std::string& name : names) {
    const Preset preset = open_preset(name);
    EXPECT_EQ(preset.spec.name, name);
    EXPECT_TRUE(preset.spec.is_synthetic) << name;
    EXPECT_NE(preset.source.find("https://"), std::string::npos) << name;
    EXPECT_EQ(preset.spec.content_hash.size(), 32U) << name;
    hashes.insert(preset.spec.content_hash);
    const bool is_approximate =
        name.starts_with("gpt-oss") || name.starts_with("deepseek-v4") || name == "olmoe-1b-7b";
    EXPECT_EQ(!preset.spec.approximation.empty(), is_approximate) << name;
  }
  EXPECT_EQ(hashes.size(), names.size());
}

TEST(Presets, RoutingAndTypesAreTheModelsOwn) {
  const ModelSpec v2 = open_preset("deepseek-v2-lite").spec;
  EXPECT_EQ(v2.routing, RoutingRule::softmax_top_k);
  EXPECT_FALSE(v2.normalize_top_k);
  EXPECT_EQ(v2.q_lora_rank, 0);
  EXPECT_EQ(v2.shared_experts, 2);
  EXPECT_EQ(v2.moe_layer_count(), 26);
  const ModelSpec v3 = open_preset("deepseek-v3").spec;
  EXPECT_EQ(v3.routing, RoutingRule::grouped_sigmoid_bias);
  EXPECT_EQ(v3.checkpoint_type, NumberType::fp8);
  EXPECT_EQ(v3.dense_number_type(), NumberType::fp8);
  EXPECT_EQ(v3.table_number_type(), NumberType::bf16);
  const ModelSpec hypothetical = open_preset("hypothetical-v4").spec;
  EXPECT_EQ(hypothetical.experts, 128);
  EXPECT_EQ(hypothetical.experts_per_token, 8);
  EXPECT_EQ(hypothetical.hidden, v3.hidden);
  const ModelSpec v4 = open_preset("deepseek-v4-flash").spec;
  EXPECT_EQ(v4.routing, RoutingRule::sqrt_softplus_bias);
  EXPECT_EQ(v4.checkpoint_type, NumberType::mxfp4);
  EXPECT_EQ(v4.dense_number_type(), NumberType::fp8);
  EXPECT_EQ(v4.kv_lora_rank + v4.qk_rope_dim, 512);
  EXPECT_EQ(open_preset("gpt-oss-120b").spec.dense_number_type(), NumberType::bf16);
  EXPECT_EQ(open_preset("llama-3-8b").spec.moe_layer_count(), 0);
  EXPECT_TRUE(open_preset("olmoe-1b-7b").spec.qk_norm);
}

TEST(Presets, OverridesVaryOneThingAtATime) {
  const ModelSpec published = open_preset("deepseek-v3").spec;
  const ModelSpec changed = open_preset("deepseek-v3:top_k=4,experts=128,layers=24,fold=2").spec;
  EXPECT_EQ(changed.name, "deepseek-v3:layers=24,experts=128,top_k=4,fold=2");  // in a fixed order
  EXPECT_EQ(changed.layers, 24);
  EXPECT_EQ(changed.experts, 128);
  EXPECT_EQ(changed.experts_per_token, 4);
  EXPECT_EQ(changed.fold, 2);
  EXPECT_EQ(changed.moe_layer_count(), 21);
  EXPECT_EQ(changed.hidden, published.hidden);
  EXPECT_EQ(changed.shared_experts, published.shared_experts);
  for (const std::string& small : small_presets()) EXPECT_EQ(open_preset(small).spec.hidden, 64) << small;
}

// The hash says which numbers a measurement was made with: equal models have equal ones, however they are
// written.
TEST(Presets, IdentityIsPresetOverridesAndSeed) {
  const auto hash_of = [](const std::string& model) { return open_preset(model).spec.content_hash; };
  EXPECT_EQ(hash_of("mixtral-8x7b"), hash_of("mixtral-8x7b:layers=32,fold=1,seed=1"));
  EXPECT_EQ(hash_of("mixtral-8x7b:layers=4,top_k=1"), hash_of("mixtral-8x7b:top_k=1,layers=4"));
  std::set<std::string> hashes;
  const std::vector<std::string> models{"mixtral-8x7b",          "mixtral-8x7b:layers=4",
                                        "mixtral-8x7b:layers=5", "mixtral-8x7b:seed=2",
                                        "mixtral-8x7b:fold=2",   "llama-3-8b:layers=4"};
  for (const std::string& model : models) hashes.insert(hash_of(model));
  EXPECT_EQ(hashes.size(), models.size());
}

TEST(Presets, BadOverridesNameFieldValueAndWhatIsAccepted) {
  const auto refusal = [](const std::string& model) {
    return message_of<InputError>([&] { open_preset(model); });
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"mixtral-8x7b:layer=4",
       R"(model mixtral-8x7b: "layer" cannot be overridden (accepted: layers, experts, top_k,)"},
      {"mixtral-8x7b:shared=1", R"(model mixtral-8x7b: "shared" cannot be overridden)"},
      {"deepseek-v3:kv_heads=4", R"("kv_heads" cannot be overridden)"},
      {"mixtral-8x7b:layers", "model mixtral-8x7b: layers: its value is missing (accepted: layers=number)"},
      {"mixtral-8x7b:layers=four", R"(model mixtral-8x7b: layers: "four" (accepted: a whole number))"},
      {"mixtral-8x7b:layers=-4", R"("-4" (accepted: a whole number))"},
      {"mixtral-8x7b:layers=4,layers=5", "model mixtral-8x7b: layers: is given twice"},
      {"mixtral-8x7b:layers=0", "model mixtral-8x7b: num_hidden_layers: 0 (accepted: an integer from 1"},
      {"mixtral-8x7b:top_k=9", "num_experts_per_tok: 9, but num_local_experts is 8 (accepted: 1 to 8)"},
      {"deepseek-v3:experts=100", "n_group: 8 does not divide n_routed_experts 100"},
      {"deepseek-v3:layers=2", "first_k_dense_replace: 3 leaves no layer of 2 with experts"},
      {"mixtral-8x7b:heads=5", "num_key_value_heads: 8 does not divide num_attention_heads 5"},
      {"mixtral-8x7b:fold=33", "model mixtral-8x7b: fold: 33 (accepted: 1 to 32, its layers)"},
      {"mixtral-8x7b:fold=0", "model mixtral-8x7b: fold: 0"},
      {"mixtral-8x7b:", R"("" cannot be overridden)"}};
  for (const auto& [model, expected] : cases)
    EXPECT_NE(refusal(model).find(expected), std::string::npos) << model << ": " << refusal(model);
}

TEST(Presets, ANameIsAPresetsOrNot) {
  EXPECT_TRUE(names_preset("deepseek-v3"));
  EXPECT_TRUE(names_preset("deepseek-v3:anything"));
  EXPECT_FALSE(names_preset("deepseek-v33"));
  EXPECT_FALSE(names_preset("tiny-moe"));
  EXPECT_FALSE(names_preset(""));
  EXPECT_EQ(open_preset(with_fold("mixtral-8x7b:layers=4", 2)).spec.name, "mixtral-8x7b:layers=4,fold=2");
  EXPECT_EQ(open_preset(with_fold("mixtral-8x7b", 2)).spec.name, "mixtral-8x7b:fold=2");
}

}  // namespace
}  // namespace moetune
