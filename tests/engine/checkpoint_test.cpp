// Checkpoints on disk: what the views hold, how experts are found, what the hash is of.
#include "engine/checkpoint.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/checkpoint_hash.h"
#include "engine/tensor_names.h"
#include "tests/engine/support/checkpoint_copy.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

TEST(Checkpoint, OpensEveryGolden) {
  for (const char* name : {"deepseek_v3_yarn", "deepseek_v3_direct_q", "mixtral", "mixtral_window_fused",
                           "qwen3_moe_shards", "qwen3_moe_yarn"}) {
    const Checkpoint checkpoint(golden(name));
    EXPECT_EQ(checkpoint.spec().name, name);
    EXPECT_EQ(checkpoint.spec().content_hash.size(), 32U);
    EXPECT_NO_THROW(checkpoint.check_finite());
  }
}

TEST(Checkpoint, TakesItsTypeFromTheExperts) {
  const CheckpointCopy copy("mixtral");
  copy.edit_json("config.json", [](nlohmann::json& config) { config["dtype"] = "float32"; });
  EXPECT_EQ(Checkpoint(copy.path()).spec().checkpoint_type, NumberType::f16);
}

TEST(Checkpoint, ViewsAreTheBytesOfTheExtent) {
  const Checkpoint checkpoint(golden("qwen3_moe_shards"));
  const std::string name = "model.layers.2.self_attn.k_proj.weight";
  const Tensor view = checkpoint.tensor(name, {42, 52});
  const Checkpoint::Extent extent = checkpoint.extent(name);
  const std::string file = read_bytes(extent.file);
  ASSERT_EQ(extent.bytes, view.elements() * 2);
  EXPECT_EQ(std::memcmp(view.data(), file.data() + extent.offset, static_cast<std::size_t>(extent.bytes)), 0);
  EXPECT_TRUE(checkpoint.has(name));
  EXPECT_FALSE(checkpoint.has("lm_head.weight"));  // tied
}

TEST(Checkpoint, ExpertsAreTheTensorsOfTheirNames) {
  const Checkpoint checkpoint(golden("deepseek_v3_yarn"));
  const Checkpoint::Expert expert = checkpoint.expert(2, 14);
  EXPECT_EQ(expert.gate.view.data(),
            checkpoint.tensor("model.layers.2.mlp.experts.14.gate_proj.weight", {12, 52}).data());
  EXPECT_EQ(expert.up.view.data(),
            checkpoint.tensor("model.layers.2.mlp.experts.14.up_proj.weight", {12, 52}).data());
  EXPECT_EQ(expert.down.view.data(),
            checkpoint.tensor("model.layers.2.mlp.experts.14.down_proj.weight", {52, 12}).data());
  EXPECT_EQ(expert.down.extent.offset,
            checkpoint.extent("model.layers.2.mlp.experts.14.down_proj.weight").offset);
}

TEST(Checkpoint, FusedExpertsAreSlicesOfTheirTensors) {
  const Checkpoint checkpoint(golden("mixtral_window_fused"));
  const std::string prefix = "model.layers.1.block_sparse_moe.experts.";
  const Tensor gate_up = checkpoint.tensor(prefix + "gate_up_proj", {7, 40, 60});
  const Tensor down = checkpoint.tensor(prefix + "down_proj", {7, 60, 20});
  const Checkpoint::Expert expert = checkpoint.expert(1, 6);
  EXPECT_EQ(expert.gate.view.as<std::uint16_t>(), gate_up.as<std::uint16_t>() + (6 * 40) * 60);
  EXPECT_EQ(expert.up.view.as<std::uint16_t>(), gate_up.as<std::uint16_t>() + (6 * 40 + 20) * 60);
  EXPECT_EQ(expert.down.view.as<std::uint16_t>(), down.as<std::uint16_t>() + 6 * 60 * 20);
  EXPECT_EQ(expert.up.extent.offset,
            checkpoint.extent(prefix + "gate_up_proj").offset + (6 * 40 + 20) * 60 * 2);
  EXPECT_EQ(expert.up.extent.bytes, 20 * 60 * 2);
  EXPECT_EQ(expert.down.view.dim(0), 60);
  EXPECT_EQ(expert.down.view.dim(1), 20);
}

TEST(Checkpoint, CopiesTensorsThatAreNotAligned) {
  const CheckpointCopy copy("deepseek_v3_direct_q");  // f32
  const std::string header = take_apart(read_bytes(copy.weights())).header.dump();
  for (std::size_t padding = 0; padding < 4; ++padding) {
    write_bytes(copy.weights(), safetensors_bytes(header + std::string(padding, ' '),
                                                  take_apart(read_bytes(copy.weights())).data));
    const Checkpoint checkpoint(copy.path());
    const Tensor view = checkpoint.tensor("model.norm.weight", {52});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data()) % 4, 0U);
    EXPECT_NEAR(view.f32()[0], 1.0, 1.0);
    const Tensor again = checkpoint.tensor("model.norm.weight", {52});
    EXPECT_EQ(view.data(), again.data());
    const std::string file = read_bytes(copy.weights());
    EXPECT_EQ(std::memcmp(view.data(), file.data() + checkpoint.extent("model.norm.weight").offset, 52 * 4),
              0);
  }
}

TEST(Checkpoint, TheHashIsOfTheContentNotOfThePlace) {
  const CheckpointCopy copy("mixtral");
  const std::string hash = Checkpoint(golden("mixtral")).spec().content_hash;
  EXPECT_EQ(Checkpoint(copy.path()).spec().content_hash, hash);
  copy.edit_weights(
      [](EditableSafetensors& file) { file.data.back() = static_cast<char>(file.data.back() ^ 1); });
  EXPECT_NE(Checkpoint(copy.path()).spec().content_hash, hash);
  const CheckpointCopy other_config("mixtral");
  other_config.edit_json("config.json", [](nlohmann::json& config) { config["rms_norm_eps"] = 1e-6; });
  EXPECT_NE(Checkpoint(other_config.path()).spec().content_hash, hash);
}

// Of a large checkpoint only some places of each tensor are hashed, both ends among them.
TEST(Checkpoint, TheHashOfALargeOneIsOfSamples) {
  const CheckpointCopy copy("mixtral_window_fused");
  const auto hash = [&](std::int64_t hashed_whole_bytes) {
    return checkpoint_hash("", open_tensor_files(copy.path()), hashed_whole_bytes);
  };
  const std::string whole = hash(kHashedWholeBytes);
  const std::string sampled = hash(0);
  EXPECT_NE(whole, sampled);
  EXPECT_EQ(hash(0), sampled);
  const auto flip = [&](std::int64_t byte_from_end) {
    copy.edit_weights([&](EditableSafetensors& file) {
      const auto offsets = file.header.at("model.layers.1.mlp.experts.gate_up_proj").at("data_offsets");
      char& byte = file.data[offsets[1].get<std::size_t>() - static_cast<std::size_t>(byte_from_end)];
      byte = static_cast<char>(byte ^ 1);
    });
  };
  flip(1);
  EXPECT_NE(hash(0), sampled);
  flip(1);
  EXPECT_EQ(hash(0), sampled);
  flip(5000);  // between two samples
  EXPECT_EQ(hash(0), sampled);
  EXPECT_NE(hash(kHashedWholeBytes), whole);
}

}  // namespace
}  // namespace moetune
