// Start at the table at the end of this file; the setters above it are in the same order.
#include "engine/facts/knobs.h"

#include <array>
#include <limits>
#include <utility>

#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"

namespace moetune {
namespace {

constexpr int kAnyCount = std::numeric_limits<int>::max();

// A field whose 0 has a name of its own ("native": as the model has it; "auto": as engine or workload
// choose).
struct CountKnob {
  std::string_view name;
  std::string_view accepted;
  std::string_view zero;
  int EngineOptions::* field;
  int most = kAnyCount;

  void set(EngineOptions& options, std::string_view value) const {
    options.*field = value == zero ? 0 : parse_integer(name, value, accepted, 1, most);
  }
  std::string get(const EngineOptions& options) const {
    return options.*field == 0 ? std::string(zero) : std::to_string(options.*field);
  }
};

constexpr CountKnob kTopK{"top_k", "1 .. the model's own, native", "native", &EngineOptions::top_k};
constexpr CountKnob kPrefillChunk{"prefill_chunk", "tokens, at least 1; auto", "auto",
                                  &EngineOptions::prefill_chunk};
constexpr CountKnob kMaxSequences{"max_sequences", "1 .. 256, auto", "auto", &EngineOptions::max_sequences,
                                  256};
constexpr CountKnob kCpuThreads{"cpu_threads", "1 .. cores, auto", "auto", &EngineOptions::cpu_threads};

// One of a fixed list of names.
template <class Value, std::size_t count>
struct ChoiceKnob {
  std::string_view name;
  std::string_view accepted;
  Value EngineOptions::* field;
  std::array<std::pair<std::string_view, Value>, count> choices;

  void set(EngineOptions& options, std::string_view value) const {
    for (const auto& [text, choice] : choices)
      if (value == text) {
        options.*field = choice;
        return;
      }
    throw InputError(std::string(name), "'" + std::string(value) + "'", std::string(accepted));
  }
  std::string get(const EngineOptions& options) const {
    for (const auto& [text, choice] : choices)
      if (options.*field == choice) return std::string(text);
    return "?";
  }
};

using Type = std::optional<NumberType>;
constexpr std::array<std::pair<std::string_view, Type>, 8> kWeightTypes{{{"checkpoint", std::nullopt},
                                                                         {"bf16", NumberType::bf16},
                                                                         {"fp8", NumberType::fp8},
                                                                         {"int8", NumberType::int8},
                                                                         {"int4", NumberType::int4},
                                                                         {"int4_g32", NumberType::int4_g32},
                                                                         {"mxfp4", NumberType::mxfp4},
                                                                         {"f32", NumberType::f32}}};
constexpr std::string_view kWeightTypeNames = "checkpoint, f32, bf16, fp8, int8, int4, int4_g32, mxfp4";
constexpr ChoiceKnob<Type, 8> kExpertQuant{"expert_quant", kWeightTypeNames, &EngineOptions::expert_quant,
                                           kWeightTypes};
constexpr ChoiceKnob<Type, 8> kDenseQuant{"dense_quant", kWeightTypeNames, &EngineOptions::dense_quant,
                                          kWeightTypes};
constexpr ChoiceKnob<Type, 6> kKvType{"kv_type",
                                      "auto, f32, f16, bf16, fp8, int8",
                                      &EngineOptions::kv_type,
                                      {{{"auto", std::nullopt},
                                        {"f32", NumberType::f32},
                                        {"f16", NumberType::f16},
                                        {"bf16", NumberType::bf16},
                                        {"fp8", NumberType::fp8},
                                        {"int8", NumberType::int8}}}};

constexpr std::array<std::pair<std::string_view, int>, 4> kDegrees{{{"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}}};
constexpr ChoiceKnob<int, 4> kTensorParallel{"tensor_parallel", "1, 2, 4, 8", &EngineOptions::tensor_parallel,
                                             kDegrees};
constexpr ChoiceKnob<int, 4> kExpertParallel{"expert_parallel", "1, 2, 4, 8", &EngineOptions::expert_parallel,
                                             kDegrees};

constexpr ChoiceKnob<RouterPlacement, 2> kRouter{
    "router",
    "gpu, cpu",
    &EngineOptions::router,
    {{{"gpu", RouterPlacement::gpu}, {"cpu", RouterPlacement::cpu}}}};
constexpr ChoiceKnob<CachePolicy, 4> kCachePolicy{"cache_policy",
                                                  "lru, lfu, layer_lru, pinned",
                                                  &EngineOptions::cache_policy,
                                                  {{{"lru", CachePolicy::lru},
                                                    {"lfu", CachePolicy::lfu},
                                                    {"layer_lru", CachePolicy::layer_lru},
                                                    {"pinned", CachePolicy::pinned}}}};
constexpr ChoiceKnob<MissHandling, 3> kMiss{
    "miss",
    "dma, pull, cpu",
    &EngineOptions::miss,
    {{{"dma", MissHandling::dma}, {"pull", MissHandling::pull}, {"cpu", MissHandling::cpu}}}};
constexpr ChoiceKnob<Prefetch, 5> kPrefetch{"prefetch",
                                            "none, repeat, next_gate, markov, table",
                                            &EngineOptions::prefetch,
                                            {{{"none", Prefetch::none},
                                              {"repeat", Prefetch::repeat},
                                              {"next_gate", Prefetch::next_gate},
                                              {"markov", Prefetch::markov},
                                              {"table", Prefetch::table}}}};

struct SwitchKnob {
  std::string_view name;
  bool EngineOptions::* field;

  static constexpr std::string_view accepted = "on, off";
  void set(EngineOptions& options, std::string_view value) const {
    options.*field = parse_on_off(name, value);
  }
  std::string get(const EngineOptions& options) const { return options.*field ? "on" : "off"; }
};
constexpr SwitchKnob kCudaGraph{"cuda_graph", &EngineOptions::cuda_graph};
constexpr SwitchKnob kPrefixCache{"prefix_cache", &EngineOptions::prefix_cache};

// A share of the routed experts or a size in bytes; the field that does not hold the choice is reset.
struct ExpertCacheKnob {
  static constexpr std::string_view name = "expert_cache";
  static constexpr std::string_view accepted = "a share, 0 < f <= 1, or a size such as 12GiB or 500MB";
  void set(EngineOptions& options, std::string_view value) const {
    if (const auto bytes = parse_size(value)) {
      options.expert_cache_bytes = *bytes;
      options.expert_cache_fraction = 1.0;
      return;
    }
    constexpr double least = std::numeric_limits<double>::min();  // above 0
    options.expert_cache_fraction = parse_number(name, value, accepted, least, 1.0);
    options.expert_cache_bytes = 0;
  }
  std::string get(const EngineOptions& options) const {
    return options.expert_cache_bytes > 0 ? exact_size_text(options.expert_cache_bytes)
                                          : number_text(options.expert_cache_fraction);
  }
};
constexpr ExpertCacheKnob kExpertCache;

struct RerouteMarginKnob {
  static constexpr std::string_view name = "reroute_margin";
  static constexpr std::string_view accepted = "0 .. 1";
  void set(EngineOptions& options, std::string_view value) const {
    options.reroute_margin = parse_number(name, value, accepted, 0.0, 1.0);
  }
  std::string get(const EngineOptions& options) const { return number_text(options.reroute_margin); }
};
constexpr RerouteMarginKnob kRerouteMargin;

struct TopKRuleKnob {
  static constexpr std::string_view name = "top_k_rule";
  static constexpr std::string_view accepted = "static, threshold:t with 0 < t <= 1, per_layer";
  void set(EngineOptions& options, std::string_view value) const {
    constexpr std::string_view threshold = "threshold:";
    if (value.starts_with(threshold)) {
      const double share = parse_number(name, value.substr(threshold.size()), accepted,
                                        std::numeric_limits<double>::min(), 1.0);
      options.top_k_rule = std::string(threshold) + number_text(share);
    } else if (value == "static" || value == "per_layer") {
      options.top_k_rule = value;
    } else {
      throw InputError(std::string(name), "'" + std::string(value) + "'", std::string(accepted));
    }
  }
  std::string get(const EngineOptions& options) const { return options.top_k_rule; }
};
constexpr TopKRuleKnob kTopKRule;

struct Facts {
  std::string_view unit;
  SwitchCost switch_cost;
  bool changes_output;
  bool in_default_space;
  std::string_view meaning;
};

template <const auto& knob>
constexpr Knob table_row(const Facts& facts) {
  return {.name = knob.name,
          .unit = facts.unit,
          .accepted = knob.accepted,
          .switch_cost = facts.switch_cost,
          .changes_output = facts.changes_output,
          .in_default_space = facts.in_default_space,
          .meaning = facts.meaning,
          .set = [](EngineOptions& options, std::string_view value) { knob.set(options, value); },
          .get = [](const EngineOptions& options) { return knob.get(options); }};
}

constexpr bool kChanges = true;  // the logits
constexpr bool kKeeps = false;
constexpr bool kDefaultSpace = true;
constexpr bool kFullSpace = false;

// kChanges also where only the rounding differs: tensor and expert parallel sum in another order, a router or
// expert computed elsewhere rounds differently.
constexpr std::array<Knob, 18> kKnobs{{
    table_row<kTopK>({"experts", SwitchCost::none, kChanges, kDefaultSpace, "routed experts per token"}),
    table_row<kExpertCache>({"", SwitchCost::cache, kKeeps, kDefaultSpace,
                             "routed experts kept on the device: a share of all, or a size"}),
    table_row<kExpertQuant>(
        {"", SwitchCost::weights, kChanges, kDefaultSpace, "number type of the routed experts"}),
    table_row<kTensorParallel>(
        {"ranks", SwitchCost::weights, kChanges, kDefaultSpace, "ranks that share every layer"}),
    table_row<kRouter>(
        {"", SwitchCost::graph, kChanges, kDefaultSpace, "where router scores and top-k are computed"}),
    table_row<kCachePolicy>(
        {"", SwitchCost::cache, kKeeps, kFullSpace, "which expert leaves a full expert cache"}),
    table_row<kMiss>({"", SwitchCost::graph, kChanges, kFullSpace,
                      "how an expert that is not on the device is brought in or computed"}),
    table_row<kPrefetch>(
        {"", SwitchCost::graph, kKeeps, kFullSpace, "which experts are fetched before they are asked for"}),
    table_row<kCudaGraph>(
        {"", SwitchCost::graph, kKeeps, kFullSpace, "launch a whole token as one CUDA graph"}),
    table_row<kExpertParallel>(
        {"ranks", SwitchCost::weights, kChanges, kFullSpace, "ranks that share the routed experts"}),
    table_row<kDenseQuant>(
        {"", SwitchCost::weights, kChanges, kFullSpace,
         "number type of attention, dense and shared feed-forward matrices (not embedding, router, head)"}),
    table_row<kKvType>({"", SwitchCost::cache, kChanges, kFullSpace, "number type of the KV cache"}),
    table_row<kPrefillChunk>({"tokens", SwitchCost::cache, kKeeps, kFullSpace, "prompt tokens per step"}),
    table_row<kRerouteMargin>(
        {"", SwitchCost::none, kChanges, kFullSpace,
         "how far below a missing expert's score a resident one may be and still replace it"}),
    table_row<kTopKRule>({"", SwitchCost::none, kChanges, kFullSpace,
                          "whether the number of experts depends on scores or layer"}),
    table_row<kMaxSequences>(
        {"sequences", SwitchCost::cache, kKeeps, kFullSpace, "most sequences side by side"}),
    table_row<kPrefixCache>(
        {"", SwitchCost::cache, kKeeps, kFullSpace, "reuse the KV cache of a common prompt start"}),
    table_row<kCpuThreads>(
        {"threads", SwitchCost::cache, kKeeps, kFullSpace, "threads the CPU part may use"}),
}};

}  // namespace

std::span<const Knob> knobs() { return kKnobs; }

const Knob& knob_named(std::string_view name) {
  std::string accepted;
  for (const Knob& knob : kKnobs) {
    if (knob.name == name) return knob;
    accepted += (accepted.empty() ? "" : ", ") + std::string(knob.name);
  }
  throw InputError("knob", "'" + std::string(name) + "'", accepted);
}

void set_knob(EngineOptions& options, std::string_view name, std::string_view value) {
  knob_named(name).set(options, value);
}

}  // namespace moetune
