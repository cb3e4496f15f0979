// A cache of any size and policy gives the bits of the resident model, counts what a plain model of it
// counts, and really holds only its share of the experts.
#include "engine/expert_cache.h"

#include <fstream>
#include <list>
#include <map>

#include <fmt/format.h>

#include "engine/expert_store.h"
#include "engine/untried.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"
#include "tests/support/untried.h"

namespace moetune::testing {
namespace {

// The smallest share the engine accepts: layers x top_k slots.
std::string smallest_share(const ModelSpec& spec, int top_k) {
  return fmt::format("{}", static_cast<double>(top_k) / spec.experts);
}

class ExpertCacheEngine : public ::testing::TestWithParam<std::string> {
 protected:
  CacheFolder folder;
};

// All tokens at once ask for more experts than there are slots, so they come in waves.
TEST_P(ExpertCacheEngine, EqualsTheResidentModelBitForBit) {
  Golden expected = golden(GetParam());
  expected.ids.resize(24);
  const ModelSpec& spec = expected.checkpoint->spec();
  for (const char* type : {"checkpoint", "bf16", "int8", "int4", "int4_g32"}) {
    Engine resident = engine_over(expected, {{"expert_quant", type}});
    const std::vector<float> logits = teacher_forced(resident, expected.ids, expected.ids.size());
    EXPECT_EQ(resident.stats().expert_misses, 0);
    for (const char* policy : {"lru", "lfu", "layer_lru", "pinned"})
      for (const std::string& share : {smallest_share(spec, spec.experts_per_token), std::string("0.75")}) {
        const std::string what = fmt::format("{}, {}, share {}", type, policy, share);
        Engine cached = engine_over(
            expected, {{"expert_quant", type}, {"cache_policy", policy}, {"expert_cache", share}});
        expect_identical(teacher_forced(cached, expected.ids, expected.ids.size()), logits,
                         what + ", prefill");
        expect_identical(teacher_forced(cached, expected.ids, 1), logits, what + ", decode");
        EXPECT_GT(cached.stats().expert_misses, 0) << what;
        EXPECT_LT(cached.stats().device_bytes, resident.stats().device_bytes) << what;
      }
  }
}

TEST_P(ExpertCacheEngine, CountsWhatAPlainModelCounts) {
  const Golden expected = golden(GetParam());
  const ModelSpec& spec = expected.checkpoint->spec();
  Engine engine = engine_over(
      expected, {{"cache_policy", "lru"}, {"expert_cache", smallest_share(spec, spec.experts_per_token)}});
  const std::int64_t slots = std::int64_t{spec.moe_layer_count()} * spec.experts_per_token;
  std::list<std::pair<int, int>> recent;  // the resident experts, asked for last in front
  std::int64_t lookups = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  engine.observe_routing(
      [&](int layer, std::span<const std::int32_t> ids, std::span<const float> weights, int tokens, int k) {
        ASSERT_EQ(tokens, 1);
        ASSERT_EQ(ids.size(), weights.size());
        lookups += k;
        for (const std::int32_t expert : ids) {
          const auto found = std::ranges::find(recent, std::pair(layer, expert));
          ++(found == recent.end() ? misses : hits);
          if (found != recent.end()) recent.erase(found);
          recent.emplace_front(layer, expert);
        }
        while (static_cast<std::int64_t>(recent.size()) > slots) recent.pop_back();
      });
  teacher_forced(engine, expected.ids, 1);
  const RunStats stats = engine.stats();
  EXPECT_EQ(stats.tokens, static_cast<std::int64_t>(expected.ids.size()));
  EXPECT_EQ(stats.expert_lookups, lookups);
  EXPECT_EQ(stats.expert_hits, hits);
  EXPECT_EQ(stats.expert_misses, misses);
  EXPECT_EQ(stats.expert_evictions, misses - slots);
  const ExpertLayout layout = ExpertLayout::of(spec.checkpoint_type, spec.hidden, spec.expert_inner);
  EXPECT_EQ(stats.expert_bytes_read, misses * layout.bytes);
  EXPECT_GT(stats.expert_load_seconds, 0.0);

  engine.reset_stats();
  EXPECT_EQ(engine.stats().expert_lookups, 0);
  engine.drop_expert_cache();
  engine.observe_routing({});
  engine.forward(step_of(expected.ids, 0, 1));
  EXPECT_EQ(engine.stats().expert_hits, 0) << "dropped, and still there";
  EXPECT_EQ(engine.stats().expert_misses, slots);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ExpertCacheEngine, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

TEST(ExpertCache, ASizeIsAsGoodAsAShare) {
  const Golden tiny = golden("tiny_moe");
  Engine by_share = engine_over(tiny, {{"expert_cache", "0.5"}});
  const ModelSpec& spec = by_share.spec();
  const std::int64_t expert = ExpertLayout::of(spec.checkpoint_type, spec.hidden, spec.expert_inner).bytes;
  const std::int64_t slots = std::int64_t{spec.moe_layer_count()} * spec.experts / 2;
  Engine by_size = engine_over(tiny, {{"expert_cache", fmt::format("{}B", slots * expert + expert - 1)}});
  EXPECT_EQ(by_size.stats().device_bytes, by_share.stats().device_bytes);
}

// Resident bytes of a file in this process's mappings.
std::int64_t mapped_resident_bytes(const std::string& file_name) {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t kib = 0;
  bool in_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("-") < line.find(" ")) in_file = line.ends_with(file_name);
    if (std::int64_t value = 0; in_file && std::sscanf(line.c_str(), "Rss: %ld kB", &value) == 1)
      kib += value;
  }
  return kib * 1024;
}

// A prompt asks for every expert of a layer, in waves of what the slots hold. What decoding has asked for
// again and again is still there behind it where hot experts stay or counts decide, and is not under the two
// policies that go by recency alone.
TEST(ExpertCache, APromptLeavesTheDecodeSetWherePinnedOrByCount) {
  const Golden tiny = golden("tiny_moe");
  const ModelSpec& spec = tiny.checkpoint->spec();
  const int k = spec.experts_per_token;
  const std::size_t prompt = static_cast<std::size_t>(spec.experts / k) * 2;
  for (const char* untried_name : {"", kUntriedDeviceLookUp.data()})
    for (const auto& [policy, keeps] :
         {std::pair{"pinned", true}, {"lfu", true}, {"layer_lru", false}, {"lru", false}}) {
      const WithUntried untried(untried_name);
      Engine engine = engine_over(tiny, {{"cache_policy", policy}, {"expert_cache", "0.5"}});
      engine.force_routing([&](int, std::span<std::int32_t> ids, int tokens, int) {
        for (int i = 0; i < tokens * k; ++i)  // the first k while decoding
          ids[static_cast<std::size_t>(i)] = i % spec.experts;
      });
      for (int token = 0; token < 6; ++token) engine.forward(step_of(tiny.ids, 0, 1));
      engine.reset_stats();
      engine.forward(step_of(tiny.ids, 0, prompt));
      EXPECT_GE(engine.stats().expert_hits + engine.stats().expert_misses,
                std::int64_t{spec.moe_layer_count()} * spec.experts)
          << "the prompt is to ask for all of them";
      engine.reset_stats();
      engine.forward(step_of(tiny.ids, 0, 1));
      EXPECT_EQ(engine.stats().expert_misses == 0, keeps) << policy << untried_name;
    }
}

TEST(ExpertCache, LeavesNoExpertsInTheMapping) {
  const CacheFolder folder;
  const Golden tiny = golden("tiny_moe");
  const std::string file = "/tiny-moe/model.safetensors";
  const auto file_bytes = static_cast<std::int64_t>(
      std::filesystem::file_size(tiny.checkpoint->directory() + "/model.safetensors"));
  for (const char* type : {"checkpoint", "int8"})
    for (const char* share : {"0.25", "1"}) {
      Engine engine = engine_over(tiny, {{"expert_quant", type}, {"expert_cache", share}});
      teacher_forced(engine, std::span(tiny.ids).first(32), 1);
      EXPECT_LT(mapped_resident_bytes(file), file_bytes / 10) << type << ", share " << share;
    }
  // The measure itself sees pages that are there.
  volatile char sum = 0;
  const Tensor embedding = tiny.checkpoint->tensor("model.embed_tokens.weight");
  for (std::int64_t i = 0; i < embedding.elements() * 2; i += 64)
    sum = static_cast<char>(sum + embedding.as<char>()[i]);
  EXPECT_GT(mapped_resident_bytes(file), embedding.elements());
}

}  // namespace
}  // namespace moetune::testing
