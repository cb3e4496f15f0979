// The knob table: every knob reads back what was set, refuses what it must, and the defaults are the table's.
#include "engine/facts/knobs.h"

#include <set>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

std::string after(std::string_view knob, std::string_view value) {
  EngineOptions options;
  set_knob(options, knob, value);
  return knob_named(knob).get(options);
}
std::string refusal(std::string_view knob, std::string_view value) {
  return message_of<InputError>([&] { after(knob, value); });
}

TEST(Knobs, AreThoseOfTheContractInItsOrder) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> default_space;
  for (const Knob& knob : knobs()) {
    names.push_back(knob.name);
    if (knob.in_default_space) default_space.push_back(knob.name);
    EXPECT_FALSE(knob.meaning.empty());
    EXPECT_FALSE(knob.accepted.empty());
  }
  EXPECT_EQ(default_space, (std::vector<std::string_view>{"top_k", "expert_cache", "expert_quant",
                                                          "tensor_parallel", "router"}));
  EXPECT_EQ(std::set(names.begin(), names.end()),
            (std::set<std::string_view>{"top_k", "expert_cache", "expert_quant", "tensor_parallel", "router",
                                        "cache_policy", "miss", "prefetch", "cuda_graph", "expert_parallel",
                                        "dense_quant", "kv_type", "prefill_chunk", "reroute_margin",
                                        "top_k_rule", "max_sequences", "prefix_cache", "cpu_threads"}));
}

TEST(Knobs, ReadBackWhatWasSetInOneSpelling) {
  const std::vector<std::array<std::string_view, 3>> cases{{"top_k", "6", "6"},
                                                           {"top_k", "native", "native"},
                                                           {"expert_cache", "0.250", "0.25"},
                                                           {"expert_cache", "1", "1"},
                                                           {"expert_cache", "1.0", "1"},
                                                           {"expert_cache", "12GiB", "12GiB"},
                                                           {"expert_cache", "12288MiB", "12GiB"},
                                                           {"expert_cache", "500MB", "500000000B"},
                                                           {"expert_cache", "1.5KiB", "1536B"},
                                                           {"expert_cache", "4096 B", "4KiB"},
                                                           {"expert_quant", "checkpoint", "checkpoint"},
                                                           {"expert_quant", "int4_g32", "int4_g32"},
                                                           {"expert_quant", "mxfp4", "mxfp4"},
                                                           {"tensor_parallel", "8", "8"},
                                                           {"router", "gpu", "gpu"},
                                                           {"cache_policy", "layer_lru", "layer_lru"},
                                                           {"cache_policy", "pinned", "pinned"},
                                                           {"miss", "cpu", "cpu"},
                                                           {"prefetch", "next_gate", "next_gate"},
                                                           {"cuda_graph", "off", "off"},
                                                           {"cuda_graph", "true", "on"},
                                                           {"expert_parallel", "4", "4"},
                                                           {"dense_quant", "fp8", "fp8"},
                                                           {"kv_type", "bf16", "bf16"},
                                                           {"kv_type", "auto", "auto"},
                                                           {"prefill_chunk", "512", "512"},
                                                           {"reroute_margin", "0.150", "0.15"},
                                                           {"top_k_rule", "static", "static"},
                                                           {"top_k_rule", "threshold:0.10", "threshold:0.1"},
                                                           {"top_k_rule", "per_layer", "per_layer"},
                                                           {"max_sequences", "256", "256"},
                                                           {"prefix_cache", "false", "off"},
                                                           {"cpu_threads", "2", "2"},
                                                           {"cpu_threads", "auto", "auto"}};
  for (const auto& [knob, value, canonical] : cases) {
    EXPECT_EQ(after(knob, value), canonical) << knob << "=" << value;
    EXPECT_EQ(after(knob, canonical), canonical) << knob;
  }
}

TEST(Knobs, ReadTheirOwnDefaults) {
  const EngineOptions defaults;
  for (const Knob& knob : knobs())
    EXPECT_EQ(after(knob.name, knob.get(defaults)), knob.get(defaults)) << knob.name;
}

// Each setter writes its own field and no other.
TEST(Knobs, LeaveEachOtherAlone) {
  for (const Knob& changed : knobs()) {
    EngineOptions options;
    for (const std::string_view value :
         {"3", "0.5", "int8", "2", "gpu", "lfu", "dma", "markov", "off", "bf16", "per_layer"}) {
      try {
        changed.set(options, value);
      } catch (const InputError&) {
        continue;
      }
      if (changed.get(options) != changed.get(EngineOptions{})) break;
    }
    EXPECT_NE(changed.get(options), changed.get(EngineOptions{})) << changed.name;
    for (const Knob& other : knobs())
      if (other.name != changed.name) {
        EXPECT_EQ(other.get(options), other.get(EngineOptions{}))
            << changed.name << " changed " << other.name;
      }
  }
}

TEST(Knobs, RefuseWithNameValueAndWhatIsAccepted) {
  const std::vector<std::array<std::string_view, 2>> refused{{"top_k", "0"},
                                                             {"top_k", "-1"},
                                                             {"top_k", "2.5"},
                                                             {"top_k", ""},
                                                             {"top_k", "8 "},
                                                             {"top_k", "99999999999"},
                                                             {"expert_cache", "0"},
                                                             {"expert_cache", "1.01"},
                                                             {"expert_cache", "-0.5"},
                                                             {"expert_cache", "nan"},
                                                             {"expert_cache", "inf"},
                                                             {"expert_cache", "0GiB"},
                                                             {"expert_cache", "GiB"},
                                                             {"expert_cache", "-1GiB"},
                                                             {"expert_cache", "nanGiB"},
                                                             {"expert_cache", "1e30TiB"},
                                                             {"expert_cache", "12gib"},
                                                             {"expert_cache", "half"},
                                                             {"expert_quant", "int2"},
                                                             {"expert_quant", "INT8"},
                                                             {"expert_quant", "i32"},
                                                             {"tensor_parallel", "3"},
                                                             {"tensor_parallel", "16"},
                                                             {"router", "tpu"},
                                                             {"cache_policy", "fifo"},
                                                             {"miss", "pushed"},
                                                             {"prefetch", "all"},
                                                             {"cuda_graph", "1"},
                                                             {"expert_parallel", "0"},
                                                             {"kv_type", "int4"},
                                                             {"prefill_chunk", "0"},
                                                             {"reroute_margin", "1.5"},
                                                             {"reroute_margin", "nan"},
                                                             {"top_k_rule", "threshold:"},
                                                             {"top_k_rule", "threshold:0"},
                                                             {"top_k_rule", "threshold:2"},
                                                             {"top_k_rule", "dynamic"},
                                                             {"max_sequences", "257"},
                                                             {"prefix_cache", "yes"},
                                                             {"cpu_threads", "-2"}};
  for (const auto& [knob, value] : refused) {
    const std::string message = refusal(knob, value);
    EXPECT_TRUE(message.starts_with(std::string(knob) + ": '")) << message;
    EXPECT_TRUE(has_text(message, "(accepted: "));
  }
  EXPECT_TRUE(has_text(refusal("expert_cache", "0"), "0 < f <= 1"));
  EXPECT_TRUE(has_text(refusal("experts", "3"), "knob: 'experts' (accepted: top_k, expert_cache"));
}

TEST(KnobText, SizesAndNumbers) {
  EXPECT_EQ(parse_size("0.5"), std::nullopt);
  EXPECT_EQ(parse_size("1TiB"), std::int64_t{1} << 40);
  EXPECT_EQ(parse_size("2GB"), 2'000'000'000);
  EXPECT_EQ(exact_size_text(std::int64_t{3} << 30), "3GiB");
  EXPECT_EQ(exact_size_text(1000), "1000B");
  EXPECT_EQ(number_text(0.1), "0.1");
}

}  // namespace
}  // namespace moetune
