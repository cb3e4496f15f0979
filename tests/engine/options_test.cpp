// What options a model can take: every refusal names knob, value and what is accepted; what is accepted acts.
#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "kernels/parallel_for.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace moetune::testing {
namespace {

ModelSpec spec_from(const nlohmann::json& config) { return parse_model_config(config.dump(), "config.json"); }
const EngineLimits kLimits{.sequences = 2, .context_tokens = 32, .step_tokens = 16};

std::string objection(const ModelSpec& spec, const Settings& settings, const EngineLimits& limits = kLimits) {
  const auto text = objection_to(spec, options_with(settings), limits, 0);
  return text ? *text : "none";
}

TEST(Objections, EveryWeightTypeIsTaken) {
  const ModelSpec mla = spec_from(splittable_mla());
  for (const char* type : {"checkpoint", "f32", "bf16", "fp8", "int8", "int4", "int4_g32", "mxfp4"})
    for (const char* knob : {"expert_quant", "dense_quant"})
      EXPECT_EQ(objection(mla, {{knob, type}}), "none") << knob << "=" << type;
}

TEST(Objections, NameKnobValueAndWhatIsAccepted) {
  const ModelSpec mla = spec_from(splittable_mla());
  const std::vector<std::pair<Settings, std::vector<std::string>>> refused{
      {{{"top_k", "5"}}, {"top_k: 5", "1 .. 4"}},
      {{{"tensor_parallel", "8"}}, {"tensor_parallel: 8: 4 heads", "1, 2, 4"}},
      {{{"tensor_parallel", "4"}, {"expert_quant", "int4_g32"}},
       {"expert inner width 64 is cut into parts of 16", "group of 32", "accepted: 1, 2)"}},
      {{{"tensor_parallel", "2"}, {"expert_quant", "int4"}},
       {"expert inner width 64", "group of 128", "accepted: 1)"}},
      {{{"tensor_parallel", "2"}, {"dense_quant", "int4_g32"}},
       {"attention output width 80 is cut into parts of 40"}},
      {{{"expert_cache", "0.3"}},
       {"expert_cache: 0.3 holds 7 of 24 experts", "at least 8 (layers x top_k)", "0.3334"}},
      {{{"expert_cache", "20KiB"}}, {"expert_cache: 20KiB holds 0 of 24"}},
      {{{"router", "gpu"}}, {"router: gpu needs a GPU", "accepted: cpu"}},
      {{{"miss", "cpu"}}, {"miss: cpu: this build does not act on it yet", "accepted: pull"}},
      {{{"cuda_graph", "off"}}, {"cuda_graph: off"}},
      {{{"expert_parallel", "2"}}, {"expert_parallel: 2"}},
      {{{"cpu_threads", "100000"}}, {"cpu_threads: 100000", "the cores here"}},
  };
  for (const auto& [settings, parts] : refused)
    for (const std::string& part : parts) EXPECT_TRUE(has_text(objection(mla, settings), part));
}

TEST(DefaultOptions, RouteWhereTheLayersRun) {
  EXPECT_EQ(default_options(DeviceKind::cpu).router, RouterPlacement::cpu);
  const EngineOptions gpu = default_options(DeviceKind::cuda);
  EXPECT_EQ(gpu.device, DeviceKind::cuda);
  EXPECT_EQ(gpu.router, RouterPlacement::gpu);
}

// The rules are asked by processes that must not touch a GPU: what they say does not depend on there being
// one.
TEST(Objections, SayWhatAGpuDoesNotDo) {
  const ModelSpec mla = spec_from(splittable_mla());
  const auto on_gpu = [&](const Settings& settings) {
    EngineOptions options = default_options(DeviceKind::cuda);
    for (const auto& [knob, value] : settings) set_knob(options, knob, value);
    const auto text = objection_to(mla, options, kLimits, 0);
    return text ? *text : "none";
  };
#if MOETUNE_HAS_CUDA
  EXPECT_EQ(on_gpu({{"expert_quant", "bf16"}}), "none");
  EXPECT_EQ(on_gpu({{"router", "cpu"}}), "none");
  EXPECT_TRUE(has_text(on_gpu({{"tensor_parallel", "2"}}),
                       "tensor_parallel: above 1: this build runs a model on one GPU (accepted: 1)"));
  const auto guessing = [&](const char* prefetch, const char* miss, const char* router) {
    return on_gpu({{"expert_quant", "bf16"},
                   {"expert_cache", "0.5"},
                   {"prefetch", prefetch},
                   {"miss", miss},
                   {"router", router}});
  };
  EXPECT_EQ(guessing("repeat", "pull", "gpu"), "none");
  EXPECT_EQ(guessing("next_gate", "pull", "gpu"), "none");
  EXPECT_EQ(guessing("markov", "dma", "cpu"), "none");
  EXPECT_EQ(guessing("markov", "pull", "gpu"), "none");
  EXPECT_EQ(guessing("table", "pull", "gpu"), "none");
  EXPECT_EQ(guessing("repeat", "pull", "cpu"),
            "prefetch: repeat with miss=pull and router=cpu: a step is cut where the host has its part "
            "(accepted: none, router=gpu, or miss=dma)");
  EXPECT_EQ(guessing("repeat", "cpu", "gpu"),
            "prefetch: repeat with miss=cpu: what has no slot is computed where it is (accepted: none, or "
            "miss=dma, miss=pull)");
  EXPECT_EQ(
      on_gpu({{"expert_quant", "bf16"}, {"prefetch", "repeat"}, {"expert_cache", "0.5"}, {"miss", "dma"}}),
      "none");
  EXPECT_EQ(on_gpu({{"expert_quant", "bf16"}, {"reroute_margin", "0.1"}, {"top_k_rule", "threshold:0.1"}}),
            "none");
  EXPECT_TRUE(has_text(on_gpu({{"expert_quant", "f32"}}), "expert_quant: f32 experts"));
#else
  EXPECT_EQ(on_gpu({}), "device: cuda: this build has no GPU code (accepted: cpu)");
#endif
}

TEST(Objections, AreNoneForWhatActs) {
  const ModelSpec mla = spec_from(splittable_mla());
  const ModelSpec gqa = spec_from(splittable_gqa());
  for (const Settings& settings :
       std::vector<Settings>{{},
                             {{"top_k", "1"}, {"expert_cache", "0.1"}},
                             {{"top_k", "4"}},
                             {{"expert_cache", "0.34"}},
                             {{"tensor_parallel", "2"}, {"expert_quant", "int4_g32"}},
                             {{"tensor_parallel", "4"}, {"expert_quant", "int8"}, {"dense_quant", "int8"}},
                             {{"kv_type", "bf16"}, {"prefill_chunk", "3"}, {"cpu_threads", "1"}}})
    EXPECT_EQ(objection(mla, settings), "none");
  EXPECT_EQ(objection(gqa, {{"tensor_parallel", "8"}}), "none") << "two key/value heads are replicated";
}

TEST(Objections, CoverTheLimits) {
  const ModelSpec mla = spec_from(splittable_mla());
  EXPECT_TRUE(has_text(objection(mla, {}, {.context_tokens = 97}), "context_tokens: 97 (accepted: 1 .. 96"));
  EXPECT_TRUE(has_text(objection(mla, {}, {.sequences = 0, .context_tokens = 9}), "sequences: 0"));
  EXPECT_TRUE(has_text(objection(mla, {}, {.context_tokens = 0}), "context_tokens: 0"));
  EXPECT_TRUE(has_text(objection(mla, {}, {.context_tokens = 9, .step_tokens = 0}), "step_tokens: 0"));
  EXPECT_TRUE(has_text(objection(mla, {}, {.context_tokens = 9, .logit_rows = -1}), "logit_rows: -1"));
}

TEST(Objections, AreWhatTheEngineThrows) {
  const Golden mixtral = golden("mixtral");
  for (const Settings& settings :
       std::vector<Settings>{{{"top_k", "3"}}, {{"miss", "cpu"}}, {{"expert_cache", "0.1"}}}) {
    const EngineLimits limits{.sequences = 1, .context_tokens = 60, .step_tokens = 60};
    const std::string expected = *objection_to(mixtral.checkpoint->spec(), options_with(settings), limits, 0);
    EXPECT_EQ(message_of<InputError>([&] { Engine(mixtral.checkpoint, options_with(settings), limits); }),
              expected);
    Engine engine(mixtral.checkpoint, {}, limits);
    EXPECT_EQ(message_of<InputError>([&] { engine.reconfigure(options_with(settings)); }), expected);
    EXPECT_EQ(teacher_forced(engine, mixtral.ids, 60).size(), mixtral.logits.size())
        << "a refusal must leave the engine as it was";
  }
}

TEST(Reconfigure, GivesTheBitsOfANewEngine) {
  const CacheFolder folder;
  for (const char* name : {"deepseek_v3_yarn", "qwen3_moe_shards"}) {
    const Golden model = golden(name);
    Engine engine = engine_over(model);
    const std::string share =
        fmt::format("{}", static_cast<double>(engine.spec().experts_per_token) / engine.spec().experts);
    for (const Settings& settings : std::vector<Settings>{{{"top_k", "1"}},
                                                          {{"top_k", "3"}, {"expert_cache", share}},
                                                          {{"expert_cache", share}, {"cache_policy", "lfu"}},
                                                          {{"expert_cache", "0.8"}, {"kv_type", "bf16"}},
                                                          {{"kv_type", "f16"}, {"prefill_chunk", "7"}},
                                                          {{"cpu_threads", "1"}},
                                                          {}}) {
      ASSERT_TRUE(engine.reconfigure(options_with(settings)));
      Engine fresh = engine_over(model, settings);
      EXPECT_EQ(engine.stats().device_bytes, fresh.stats().device_bytes);
      expect_identical(teacher_forced(engine, model.ids, 5), teacher_forced(fresh, model.ids, 5), name);
    }
  }
}

TEST(Reconfigure, ForgetsContextsAndRefusesWhatNeedsOtherWeights) {
  const Golden model = golden("deepseek_v3_yarn");
  Engine engine = engine_over(model);
  teacher_forced(engine, model.ids, 10);
  EXPECT_FALSE(engine.reconfigure(options_with({{"expert_quant", "int8"}})));
  EXPECT_FALSE(engine.reconfigure(options_with({{"dense_quant", "int8"}})));
  EXPECT_NO_THROW(engine.forward(step_of(model.ids, 5, 6))) << "nothing was to change";
  EXPECT_EQ(engine.options().expert_quant, std::nullopt);
  EXPECT_TRUE(engine.reconfigure(options_with({{"expert_quant", "bf16"}}))) << "that is what it ships in";
  EXPECT_THROW(engine.forward(step_of(model.ids, 5, 6)), InputError);
}

// No folder for the spill file: the engine says so, runs nothing, and can still be brought back to what it
// can do.
TEST(Reconfigure, ThatFailsHalfWayLeavesAnEngineThatSaysSoAndRecovers) {
  const TemporaryDirectory folder;
  write_bytes(folder / "file", "not a folder");
  const Golden model = golden("mixtral");
  Engine engine = engine_over(model, {{"expert_quant", "int8"}});
  const std::vector<float> logits = teacher_forced(engine, model.ids, 60);
  const CacheFolder restores_the_variable;
  ::setenv("XDG_CACHE_HOME", (folder / "file").c_str(), 1);
  const EngineOptions cached = options_with({{"expert_quant", "int8"}, {"expert_cache", "0.5"}});
  EXPECT_TRUE(has_text(message_of<std::runtime_error>([&] { engine.reconfigure(cached); }), folder / "file"));
  EXPECT_TRUE(has_text(message_of<std::runtime_error>([&] { engine.forward(step_of(model.ids, 0, 1)); }),
                       "failed change"));
  EXPECT_TRUE(engine.reconfigure(options_with({{"expert_quant", "int8"}})));
  expect_identical(teacher_forced(engine, model.ids, 60), logits, "after recovery");
}

TEST(Options, ThreadsChangeNoBit) {
  const Golden tiny = golden("tiny_moe");
  Engine one = engine_over(tiny, {{"cpu_threads", "1"}});
  Engine all = engine_over(tiny, {{"cpu_threads", std::to_string(usable_cores())}});
  expect_identical(teacher_forced(one, tiny.ids, 64), teacher_forced(all, tiny.ids, 64), "threads");
}

// Quantized weights and a narrow cache really are something else, and not far away.
TEST(Options, EachActsOnTheLogits) {
  const Golden tiny = golden("tiny_moe");
  const std::span<const std::int32_t> ids = std::span(tiny.ids).first(48);
  Engine engine = engine_over(tiny);
  const std::vector<float> reference = teacher_forced(engine, ids, 48);
  for (const auto& [settings, most] :
       std::vector<std::pair<Settings, double>>{{{{"kv_type", "bf16"}}, 1.0},
                                                {{{"kv_type", "f16"}}, 0.2},
                                                {{{"kv_type", "int8"}}, 2.0},
                                                {{{"kv_type", "fp8"}}, 12.0},
                                                {{{"dense_quant", "int8"}}, 2.0},
                                                {{{"expert_quant", "int8"}}, 2.0},
                                                {{{"expert_quant", "int4_g32"}}, 12.0},
                                                {{{"top_k", "7"}}, 12.0}}) {
    Engine other = engine_over(tiny, settings);
    const double difference = largest_difference(teacher_forced(other, ids, 48), reference);
    EXPECT_GT(difference, 1e-4) << settings.front().first;
    EXPECT_LT(difference, most) << settings.front().first << " " << settings.front().second;
  }
}

}  // namespace
}  // namespace moetune::testing
