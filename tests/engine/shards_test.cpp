// Checkpoints in several files: each tensor is in its own, and an index that lies is refused.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/support/checkpoint_copy.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

TEST(Shards, EachTensorIsInItsShard) {
  const Checkpoint checkpoint(golden("qwen3_moe_shards"));
  const auto index =
      nlohmann::json::parse(read_bytes(golden("qwen3_moe_shards") + "/model.safetensors.index.json"));
  for (const auto& [name, shard] : index.at("weight_map").items()) {
    EXPECT_EQ(fs::path(checkpoint.extent(name).file).filename(), shard.get<std::string>());
  }
}

TEST(Shards, RefusesAMissingShard) {
  const CheckpointCopy copy("qwen3_moe_shards");
  const auto index = nlohmann::json::parse(read_bytes(copy.file("model.safetensors.index.json")));
  const auto shard = index.at("weight_map").at("model.norm.weight").get<std::string>();
  fs::remove(copy.file(shard));
  EXPECT_TRUE(
      has_text(copy.refusal(), "model.safetensors.index.json: names " + shard + ", which is missing"));
  const std::string long_name(5000, 'x');  // longer than any file system takes
  copy.edit_json("model.safetensors.index.json",
                 [&](nlohmann::json& changed) { changed["weight_map"] = {{"a", long_name}}; });
  EXPECT_TRUE(has_text(copy.refusal(), "xxx..., which is missing"));
}

TEST(Shards, RefusesPathsInsteadOfNames) {
  for (const char* path :
       {"../model.safetensors", "/etc/passwd", "..", ".", "", "sub/model.safetensors", "a\\b"}) {
    const CheckpointCopy copy("qwen3_moe_shards");
    copy.edit_json("model.safetensors.index.json",
                   [&](nlohmann::json& index) { index["weight_map"]["model.norm.weight"] = path; });
    EXPECT_TRUE(has_text(copy.refusal(), "weight_map: model.norm.weight: ")) << path;
    EXPECT_TRUE(has_text(copy.refusal(), "accepted: the name of a file in the same directory")) << path;
  }
}

TEST(Shards, RefusesAnIndexThatDoesNotSayWhatTheShardsHold) {
  const std::string index_name = "model.safetensors.index.json";
  const CheckpointCopy elsewhere("qwen3_moe_shards");
  elsewhere.edit_json(index_name, [](nlohmann::json& index) {
    auto& map = index["weight_map"];
    ASSERT_NE(map["model.norm.weight"], map["model.embed_tokens.weight"]);
    map["model.norm.weight"] = map["model.embed_tokens.weight"];
  });
  EXPECT_TRUE(has_text(elsewhere.refusal(), "weight_map: model.norm.weight: says "));
  const CheckpointCopy phantom("qwen3_moe_shards");
  phantom.edit_json(index_name, [](nlohmann::json& index) {
    index["weight_map"]["extra"] = index["weight_map"]["model.norm.weight"];
  });
  EXPECT_TRUE(has_text(phantom.refusal(), "weight_map: extra: says "));
  const CheckpointCopy forgotten("qwen3_moe_shards");
  forgotten.edit_json(index_name,
                      [](nlohmann::json& index) { index["weight_map"].erase("model.norm.weight"); });
  EXPECT_TRUE(has_text(forgotten.refusal(), "model.norm.weight: not in the weight_map of "));
  const CheckpointCopy empty("qwen3_moe_shards");
  empty.edit_json(index_name, [](nlohmann::json& index) { index = nlohmann::json::array(); });
  EXPECT_TRUE(has_text(empty.refusal(), "index.json: weight_map: missing or empty"));
}

TEST(Shards, RefusesATensorInTwoShards) {
  const CheckpointCopy copy("qwen3_moe_shards");
  const auto index = nlohmann::json::parse(read_bytes(copy.file("model.safetensors.index.json")));
  const auto shard = index.at("weight_map").at("model.norm.weight").get<std::string>();
  fs::copy_file(copy.file(shard), copy.file("zzz.safetensors"));
  copy.edit_json("model.safetensors.index.json",
                 [](nlohmann::json& changed) { changed["weight_map"]["extra"] = "zzz.safetensors"; });
  EXPECT_TRUE(has_text(copy.refusal(), "as well (accepted: each tensor in one shard)"));
}

}  // namespace
}  // namespace moetune
