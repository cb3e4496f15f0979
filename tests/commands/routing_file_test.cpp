// The routing file: what is written is read back, and whoever else wrote it is told what is wrong with it.
#include "tuner/commands/routing_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

constexpr int experts = 6;
constexpr int k = 2;
constexpr std::int64_t tokens = 3;

// Blocks 1 and 2 of three route.
ModelSpec small_model() {
  ModelSpec spec;
  spec.layers = 3;
  spec.moe_layers = {false, true, true};
  spec.experts = experts;
  spec.experts_per_token = k;
  return spec;
}

// Expert ids that say where they stand.
RoutingTable some_routing() {
  RoutingTable table(small_model(), tokens, k);
  for (std::int64_t token = 0; token < tokens; ++token)
    for (const int layer : {1, 2})
      for (int i = 0; i < k; ++i) {
        table.ids(token, layer)[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>((token + 2 * layer + 3 * i) % experts);
        table.weights(token, layer)[static_cast<std::size_t>(i)] = 0.25F * static_cast<float>(token + 1);
      }
  return table;
}

class RoutingFile : public ::testing::Test {
 protected:
  void write(const RoutingTable& table) {
    PartialFile file("--routing-out", path_);
    write_routing(file, table);
    file.finish();
  }
  EditableSafetensors edited() {
    const std::string bytes = read_bytes(path_);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return {nlohmann::json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }
  std::string complaint(std::int64_t of_tokens = tokens, int of_k = k) {
    return message_of<InputError>([&] { read_routing(path_, small_model(), of_tokens, of_k); });
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_ / "routing.safetensors";
};

TEST_F(RoutingFile, IsReadBack) {
  const RoutingTable table = some_routing();
  write(table);
  EXPECT_EQ(read_routing(path_, small_model(), tokens, k).all_ids(), table.all_ids());
  const EditableSafetensors file = edited();
  EXPECT_EQ(file.header.at("expert_ids").at("dtype"), "I32");
  EXPECT_EQ(file.header.at("expert_ids").at("shape"), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(file.header.at("expert_weights").at("dtype"), "F32");
  std::array<std::int32_t, 4> first{};  // token 0: layer 1, layer 2
  std::memcpy(first.data(), file.data.data(), sizeof first);
  EXPECT_EQ(first, (std::array<std::int32_t, 4>{2, 5, 4, 1}));
  float last = 0.0F;
  std::memcpy(&last, file.data.data() + file.data.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, 0.75F);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(RoutingFile, MayHavePlacesWithoutAnExpert) {
  RoutingTable table = some_routing();
  for (const std::int64_t token : {0, 2}) std::ranges::fill(table.ids(token, 1), -1);
  write(table);
  EXPECT_EQ(read_routing(path_, small_model(), tokens, k).all_ids(), table.all_ids());
}

TEST_F(RoutingFile, NeedsNoWeights) {
  write(some_routing());
  EditableSafetensors file = edited();
  file.data.resize(file.data.size() / 2);
  file.header.erase("expert_weights");
  write_bytes(path_, file.bytes());
  EXPECT_EQ(read_routing(path_, small_model(), tokens, k).all_ids(), some_routing().all_ids());
}

TEST_F(RoutingFile, OfAnotherRunIsRefused) {
  write(some_routing());
  EXPECT_TRUE(has_text(
      complaint(4),
      path_ + ": expert_ids: shape (3, 2, 2) (accepted: (4, 2, 2): tokens, MoE layers, top_k of this run)"));
  EXPECT_TRUE(has_text(complaint(tokens, 1), "(accepted: (3, 2, 1)"));
}

TEST_F(RoutingFile, WithImpossibleExpertsIsRefused) {
  RoutingTable table = some_routing();
  table.ids(2, 1)[1] = experts;
  write(table);
  EXPECT_TRUE(
      has_text(complaint(), "expert_ids, token 2, layer 1: expert 6 (accepted: 0 to 5, -1 for none)"));
  table.ids(2, 1)[1] = -2;
  write(table);
  EXPECT_TRUE(has_text(complaint(), "expert -2"));
  table.ids(2, 1)[1] = table.ids(2, 1)[0];
  write(table);
  EXPECT_TRUE(has_text(complaint(), "token 2, layer 1: expert 4 twice (accepted: different experts)"));
}

TEST_F(RoutingFile, ThatIsNoneIsRefused) {
  EXPECT_TRUE(has_text(complaint(), path_));  // not there
  write_bytes(path_, "");
  EXPECT_TRUE(has_text(complaint(), path_));
  write_bytes(path_, "\x93NUMPY and so on, which is not a safetensors file");
  EXPECT_TRUE(has_text(complaint(), path_));
  write(some_routing());
  EditableSafetensors file = edited();
  file.header["expert_ids"]["dtype"] = "F32";
  write_bytes(path_, file.bytes());
  EXPECT_TRUE(has_text(complaint(), "expert_ids: no such tensor of int32"));
  write(some_routing());
  write_bytes(path_, read_bytes(path_).substr(0, 200));
  EXPECT_TRUE(has_text(complaint(), path_));
}

}  // namespace
}  // namespace moetune
