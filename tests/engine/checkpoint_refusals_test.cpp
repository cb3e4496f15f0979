// A catalogue of broken checkpoints, and how each is refused.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/tensor_names.h"
#include "tests/engine/support/checkpoint_copy.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSomeExpert = "model.layers.1.block_sparse_moe.experts.3.w2.weight";

TEST(CheckpointRefusals, RefusesDirectoriesWithoutACheckpoint) {
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

TEST(CheckpointRefusals, RefusesTruncatedWeights) {
  const CheckpointCopy copy("mixtral");
  const std::string whole = read_bytes(copy.weights());
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{8}, std::size_t{500},
                                   whole.size() / 2, whole.size() - 1}) {
    write_bytes(copy.weights(), whole.substr(0, length));
    EXPECT_TRUE(has_text(copy.refusal(), copy.weights() + ": ")) << length;
  }
}

TEST(CheckpointRefusals, RefusesAHugeHeaderLengthWithoutAllocatingIt) {
  const CheckpointCopy copy("mixtral");
  std::string bytes = read_bytes(copy.weights());
  bytes[7] = '\x7f';
  write_bytes(copy.weights(), bytes);
  EXPECT_TRUE(has_text(copy.refusal(), "model.safetensors: claims a header of 9151"));
}

TEST(CheckpointRefusals, RefusesMissingTensors) {
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

TEST(CheckpointRefusals, RefusesWrongShapes) {
  const CheckpointCopy copy("mixtral");
  copy.edit_weights([](EditableSafetensors& file) { file.header[kSomeExpert]["shape"] = {36, 60}; });
  EXPECT_TRUE(has_text(copy.refusal(), copy.weights() + ": " + kSomeExpert +
                                           ": shape [36, 60] (accepted: [60, 36], from config.json)"));
  copy.edit_weights([](EditableSafetensors& file) { file.header[kSomeExpert]["shape"] = {1, 1, 1, 60, 36}; });
  EXPECT_TRUE(has_text(copy.refusal(), "shape [1, 1, 1, 60, 36]"));
}

TEST(CheckpointRefusals, RefusesWrongTypes) {
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

TEST(CheckpointRefusals, RefusesIntegerWeights) {
  const CheckpointCopy copy("deepseek_v3_direct_q");
  copy.edit_weights([](EditableSafetensors& file) { file.header["model.norm.weight"]["dtype"] = "I32"; });
  EXPECT_TRUE(has_text(copy.refusal(), "model.norm.weight: type i32 (accepted: f32, f16, bf16)"));
}

TEST(CheckpointRefusals, FindsWeightsThatAreNotFinite) {
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

TEST(CheckpointRefusals, SurvivesAFileThatShrinksWhileItIsOpen) {
  const CheckpointCopy copy("mixtral");
  const Checkpoint checkpoint(copy.path());
  fs::resize_file(copy.weights(), 1000);
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { checkpoint.check_finite(); }), "bytes when it was opened"));
}

}  // namespace
}  // namespace moetune
