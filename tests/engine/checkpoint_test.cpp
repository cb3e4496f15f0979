// Checkpoints on disk: what the views hold, how experts are found, and a catalogue of broken directories.
#include "engine/checkpoint.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/checkpoint_hash.h"
#include "engine/engine.h"
#include "engine/facts/error.h"
#include "engine/tensor_names.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& name) { return source_dir() + "/tests/golden/" + name; }

// A copy of a golden checkpoint that a test may break.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(const std::string& name) {
    fs::copy(golden(name), directory_.path(), fs::copy_options::recursive);
  }
  std::string path() const { return directory_.path().string(); }
  std::string file(const std::string& name) const { return directory_ / name; }
  std::string weights() const { return file("model.safetensors"); }

  template <class Change>
  void edit_weights(const Change& change) const {
    EditableSafetensors file = take_apart(read_bytes(weights()));
    change(file);
    write_bytes(weights(), file.bytes());
  }
  template <class Change>
  void edit_json(const std::string& name, const Change& change) const {
    nlohmann::json json = nlohmann::json::parse(read_bytes(file(name)));
    change(json);
    write_bytes(file(name), json.dump());
  }
  std::string refusal() const {
    return message_of<InputError>([&] { Checkpoint opened(path()); });
  }

 private:
  TemporaryDirectory directory_;
};

// Cuts a tensor out of header and data; those behind it move up.
void remove_tensor(EditableSafetensors& file, const std::string& name) {
  const auto offsets = file.header.at(name).at("data_offsets").get<std::array<std::size_t, 2>>();
  const std::size_t bytes = offsets[1] - offsets[0];
  file.data.erase(offsets[0], bytes);
  file.header.erase(name);
  for (auto& [other, entry] : file.header.items()) {
    if (other == "__metadata__" || entry.at("data_offsets")[0].get<std::size_t>() < offsets[1]) continue;
    for (auto& offset : entry.at("data_offsets")) offset = offset.get<std::size_t>() - bytes;
  }
}

constexpr const char* kSomeExpert = "model.layers.1.block_sparse_moe.experts.3.w2.weight";

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

TEST(Checkpoint, RefusesDirectoriesWithoutACheckpoint) {
  const TemporaryDirectory empty;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { Checkpoint opened(empty / "nowhere"); }),
                       "nowhere: no such directory"));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { Checkpoint opened(empty.path().string()); }),
                       "config.json: No such file"));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { open_checkpoint("no-such-model"); }),
                       R"(model: "no-such-model" is no directory)"));
  const CheckpointCopy copy("mixtral");
  fs::remove(copy.weights());
  EXPECT_TRUE(
      has_text(copy.refusal(), "no weights (accepted: model.safetensors or model.safetensors.index.json"));
  fs::create_directory(copy.weights());
  EXPECT_TRUE(has_text(copy.refusal(), "model.safetensors: not a regular file"));
}

TEST(Checkpoint, RefusesTruncatedWeights) {
  const CheckpointCopy copy("mixtral");
  const std::string whole = read_bytes(copy.weights());
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{8}, std::size_t{500},
                                   whole.size() / 2, whole.size() - 1}) {
    write_bytes(copy.weights(), whole.substr(0, length));
    EXPECT_TRUE(has_text(copy.refusal(), copy.weights() + ": ")) << length;
  }
}

TEST(Checkpoint, RefusesAHugeHeaderLengthWithoutAllocatingIt) {
  const CheckpointCopy copy("mixtral");
  std::string bytes = read_bytes(copy.weights());
  bytes[7] = '\x7f';
  write_bytes(copy.weights(), bytes);
  EXPECT_TRUE(has_text(copy.refusal(), "model.safetensors: claims a header of 9151"));
}

TEST(Checkpoint, RefusesMissingTensors) {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
                           "model.layers.0.self_attn.v_proj.weight",
                           "model.layers.1.block_sparse_moe.gate.weight", kSomeExpert}) {
    const CheckpointCopy copy("mixtral");
    copy.edit_weights([&](EditableSafetensors& file) { remove_tensor(file, name); });
    EXPECT_TRUE(has_text(
        copy.refusal(),
        std::string(name) + ": missing (accepted: a tensor of this name, which MixtralForCausalLM needs)"));
  }
}

TEST(Checkpoint, RefusesWrongShapes) {
  const CheckpointCopy copy("mixtral");
  copy.edit_weights([](EditableSafetensors& file) { file.header[kSomeExpert]["shape"] = {36, 60}; });
  EXPECT_TRUE(has_text(copy.refusal(), copy.weights() + ": " + kSomeExpert +
                                           ": shape [36, 60] (accepted: [60, 36], from config.json)"));
  copy.edit_weights([](EditableSafetensors& file) { file.header[kSomeExpert]["shape"] = {1, 1, 1, 60, 36}; });
  EXPECT_TRUE(has_text(copy.refusal(), "shape [1, 1, 1, 60, 36]"));
}

TEST(Checkpoint, RefusesWrongTypes) {
  const CheckpointCopy copy("mixtral");
  copy.edit_weights([](EditableSafetensors& file) { file.header[kSomeExpert]["dtype"] = "I16"; });
  EXPECT_TRUE(has_text(copy.refusal(), std::string(kSomeExpert) + ": dtype I16 in " + copy.weights() +
                                           " (accepted: F32, F16, BF16)"));
  copy.edit_weights([](EditableSafetensors& file) {
    file.header[kSomeExpert]["dtype"] = "I32";
    file.header[kSomeExpert]["shape"] = {30, 36};
  });
  EXPECT_TRUE(has_text(copy.refusal(), "shape [30, 36]"));
  copy.edit_weights([](EditableSafetensors& file) {
    file.header[kSomeExpert]["dtype"] = "BF16";
    file.header[kSomeExpert]["shape"] = {60, 36};
  });
  EXPECT_TRUE(has_text(copy.refusal(),
                       std::string(kSomeExpert) +
                           ": type bf16, other experts are f16 (accepted: one type for all routed experts)"));
}

TEST(Checkpoint, RefusesIntegerWeights) {
  const CheckpointCopy copy("deepseek_v3_direct_q");
  copy.edit_weights([](EditableSafetensors& file) { file.header["model.norm.weight"]["dtype"] = "I32"; });
  EXPECT_TRUE(has_text(copy.refusal(), "model.norm.weight: type i32 (accepted: f32, f16, bf16)"));
}

TEST(Checkpoint, FindsWeightsThatAreNotFinite) {
  const struct {
    const char* golden;
    const char* tensor;
    std::string bad;
    int element;
  } cases[] = {{"mixtral", kSomeExpert, std::string("\x01\x7e", 2), 2159},       // f16 NaN, last element
               {"mixtral", "model.norm.weight", std::string("\x00\xfc", 2), 0},  // f16 -infinity
               {"mixtral_window_fused", "model.layers.0.mlp.experts.down_proj", std::string("\x80\x7f", 2),
                4097},  // bf16 infinity
               {"deepseek_v3_direct_q", "model.layers.0.mlp.gate.e_score_correction_bias",
                std::string("\xff\xff\xff\xff", 4), 12}};
  for (const auto& broken : cases) {
    const CheckpointCopy copy(broken.golden);
    copy.edit_weights([&](EditableSafetensors& file) {
      const auto begin = file.header.at(broken.tensor).at("data_offsets")[0].get<std::size_t>();
      file.data.replace(begin + static_cast<std::size_t>(broken.element) * broken.bad.size(),
                        broken.bad.size(), broken.bad);
    });
    const Checkpoint checkpoint(copy.path());
    const std::string message = message_of<InputError>([&] { checkpoint.check_finite(); });
    EXPECT_TRUE(has_text(message, ": element " + std::to_string(broken.element) +
                                      " is NaN or infinite (accepted: finite weights)"))
        << broken.tensor;
    EXPECT_TRUE(has_text(message, copy.weights()));
  }
}

TEST(Checkpoint, SurvivesAFileThatShrinksWhileItIsOpen) {
  const CheckpointCopy copy("mixtral");
  const Checkpoint checkpoint(copy.path());
  fs::resize_file(copy.weights(), 1000);
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { checkpoint.check_finite(); }), "bytes when it was opened"));
}

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
