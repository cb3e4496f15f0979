#include "tuner/export/translate.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/tuner/export/support.h"

namespace moetune {
namespace {

using Words = std::vector<std::string>;

bool has_words(const ServerCommand& command, const Words& words) {
  const Words all = command.arguments();
  return std::ranges::search(all, words).begin() != all.end();
}

bool has_flag(const ServerCommand& command, const std::string& flag) { return has_words(command, {flag}); }

const NoEquivalent* lost(const ServerCommand& command, const std::string& knob) {
  const auto found = std::ranges::find(command.no_equivalent, knob, &NoEquivalent::knob);
  return found == command.no_equivalent.end() ? nullptr : &*found;
}

TEST(Translate, AnOrdinaryProfileForVllm) {
  LaunchProfile profile = gpu_profile({{"top_k", "6"},
                                       {"expert_cache", "1"},
                                       {"expert_quant", "int8"},
                                       {"tensor_parallel", "2"},
                                       {"router", "gpu"}});
  profile.workload = workload_named("throughput");
  const ServerCommand command = exported("vllm", profile);
  EXPECT_EQ(command.arguments(),
            (Words{"Qwen/Qwen3-30B-A3B", "--hf-overrides", R"({"num_experts_per_tok":6})", "--quantization",
                   "experts_int8", "--tensor-parallel-size", "2", "--max-num-seqs", "32", "--max-model-len",
                   "640", "--gpu-memory-utilization", "0.44"}));
  EXPECT_TRUE(command.no_equivalent.empty());
  EXPECT_TRUE(has_text(command.lines[1].evidence, "measured on this engine, trial 23: tpot_ms 5 (4.9-5.1)"));
  EXPECT_TRUE(has_text(command.lines[4].evidence, "workload throughput"));
}

TEST(Translate, ARefutationComesFirst) {
  LaunchProfile profile = gpu_profile({{"top_k", "6"}});
  EXPECT_EQ(exported("vllm", profile).caution, "");
  profile.confirmations.resize(1);
  profile.confirmations[0].verdict = "refuted";
  profile.confirmations[0].server = "http://box:8000";
  const ServerCommand command = exported("vllm", profile);
  EXPECT_TRUE(has_text(command.caution, "REFUTED by a server"));
  EXPECT_TRUE(std::ranges::any_of(command.remarks, [](const std::string& line) {
    return line.starts_with("REFUTED by http://box:8000");
  }));
}

bool is_remarked(const ServerCommand& command, const std::string& words) {
  return std::ranges::any_of(command.remarks,
                             [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

TEST(Translate, AnotherModelThanTheOneMeasuredIsRemarked) {
  LaunchProfile profile = gpu_profile({{"top_k", "6"}});
  ExportInputs inputs = all_inputs();
  EXPECT_FALSE(is_remarked(exported("vllm", profile, inputs), "may be another model"))
      << "Qwen/Qwen3-30B-A3B";
  inputs.given["server_model"] = "/models/qwen3_30b_a3b-instruct";
  EXPECT_FALSE(is_remarked(exported("vllm", profile, inputs), "may be another model"));
  profile.model = "tiny-moe";
  EXPECT_TRUE(
      is_remarked(exported("vllm", profile, inputs),
                  "Measured on tiny-moe; by its name --server-model /models/qwen3_30b_a3b-instruct may be "
                  "another model"));
}

TEST(Translate, WhatNoLineTakesIsRemarked) {
  ExportInputs inputs = all_inputs();
  inputs.given = {{"server_model", "foo"}, {"gguf", ""}};
  EXPECT_TRUE(is_remarked(exported("ollama", gpu_profile({{"top_k", "6"}}), inputs),
                          "--server-model 'foo' is not used: nothing in this command of Ollama takes it"));
  EXPECT_FALSE(is_remarked(exported("vllm", gpu_profile({{"top_k", "6"}}), inputs), "is not used"));
}

TEST(Translate, NativeTopKAndTheCheckpointsOwnTypeNeedNoFlag) {
  const ServerCommand command = exported(
      "sglang", gpu_profile({{"top_k", "8"}, {"expert_quant", "bf16"}, {"dense_quant", "checkpoint"}}));
  EXPECT_FALSE(has_flag(command, "--json-model-override-args"));
  EXPECT_FALSE(has_flag(command, "--quantization"));
  EXPECT_EQ(command.unsaid.size(), 3U);
}

TEST(Translate, TopKIsKeptUnderEachFamilysOwnKey) {
  ExportInputs inputs = all_inputs();
  const LaunchProfile profile = gpu_profile({{"top_k", "4"}});
  inputs.model->architecture = "Qwen3VLMoeForConditionalGeneration";
  EXPECT_TRUE(has_words(exported("vllm", profile, inputs),
                        {"--hf-overrides", R"({"text_config":{"num_experts_per_tok":4}})"}));
  EXPECT_TRUE(lost(exported("sglang", profile, inputs), "top_k") !=
              nullptr);  // would replace all of text_config
  EXPECT_EQ(exported("tensorrt-llm", profile, inputs).config(),
            nlohmann::json::parse(R"({"model_kwargs":{"text_config":{"num_experts_per_tok":4}}})"));
  inputs.model->architecture = "Ernie4_5_MoeForCausalLM";
  EXPECT_TRUE(
      has_words(exported("sglang", profile, inputs), {"--json-model-override-args", R"({"moe_k":4})"}));
  EXPECT_TRUE(has_words(exported("llama.cpp", profile, inputs),
                        {"--override-kv", "ernie4_5-moe.expert_used_count=int:4"}));
  inputs.model->architecture = "NeverSeenForCausalLM";
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { exported("vllm", profile, inputs); }), "NeverSeenForCausalLM"));
}

TEST(Translate, AnExpertCacheForEachServerThatHasAnything) {
  const LaunchProfile profile = gpu_profile(
      {{"expert_cache", "0.25"}, {"cache_policy", "lru"}, {"miss", "cpu"}, {"cpu_threads", "12"}});
  EXPECT_TRUE(has_words(exported("ktransformers", profile),
                        {"--kt-weight-path", "/models/kt", "--kt-method", "AMXINT4", "--kt-cpuinfer", "12",
                         "--kt-gpu-experts-ratio", "0.25"}));
  EXPECT_TRUE(has_words(exported("sglang", profile), {"--kt-num-gpu-experts", "32"}));
  // A quarter of 128 x 48 experts of 9 MiB.
  EXPECT_TRUE(has_words(exported("llama.cpp", profile), {"--cpu-moe", "--moe-cache-mib", "13824"}));
  const ServerCommand vllm = exported("vllm", profile);
  ASSERT_NE(lost(vllm, "expert_cache"), nullptr);
  EXPECT_EQ(lost(vllm, "expert_cache")->nearest_arguments,
            (Words{"--cpu-offload-gb", "40.50", "--cpu-offload-params", "experts"}));
  EXPECT_FALSE(has_flag(vllm, "--cpu-offload-gb"));
}

TEST(Translate, ASizeOfCacheIsAShareOfTheExperts) {
  const ServerCommand command = exported("ktransformers", gpu_profile({{"expert_cache", "27GiB"}}));
  EXPECT_TRUE(has_words(command, {"--kt-gpu-experts-ratio", "0.5"}));
}

TEST(Translate, NearestChoicesAreTakenOnlyWhenAskedFor) {
  ExportInputs inputs = all_inputs();
  inputs.take_nearest = true;
  const ServerCommand command = exported("vllm", gpu_profile({{"expert_quant", "fp8"}}), inputs);
  EXPECT_TRUE(has_words(command, {"--quantization", "fp8"}));
  ASSERT_NE(lost(command, "expert_quant"), nullptr);
  EXPECT_TRUE(lost(command, "expert_quant")->taken);
  EXPECT_FALSE(has_flag(exported("vllm", gpu_profile({{"expert_quant", "fp8"}})), "--quantization"));
}

TEST(Translate, WhatIsMissingIsAskedForByName) {
  const LaunchProfile profile = gpu_profile({{"expert_cache", "0.5"}});
  const auto message = [&](const std::string& server, const std::string& without) {
    ExportInputs inputs = all_inputs();
    inputs.given.erase(without);
    return message_of<InputError>([&] { exported(server, profile, inputs); });
  };
  EXPECT_TRUE(message("vllm", "server_model").starts_with("--server-model: not given, and vLLM needs it"));
  EXPECT_TRUE(message("llama.cpp", "gguf").starts_with("--gguf: not given"));
  EXPECT_TRUE(message("ktransformers", "kt_weights").starts_with("--kt-weights: not given"));
  EXPECT_TRUE(message("sglang", "kt_method").starts_with("--kt-method: not given"));
  ExportInputs inputs = all_inputs();
  inputs.model.reset();
  EXPECT_TRUE(message_of<InputError>([&] {
                exported("sglang", gpu_profile({{"top_k", "4"}}), inputs);
              }).starts_with("--model: not given"));
}

TEST(Translate, OlderVersionsDoNotGetNewFlags) {
  ExportInputs inputs = all_inputs();
  inputs.server_version = "b11000";
  EXPECT_FALSE(
      has_flag(exported("llama.cpp", gpu_profile({{"expert_cache", "0.5"}}), inputs), "--moe-cache-mib"));
  inputs.server_version = "b12000";
  EXPECT_TRUE(
      has_flag(exported("llama.cpp", gpu_profile({{"expert_cache", "0.5"}}), inputs), "--moe-cache-mib"));
  inputs.server_version = "1.2.0";
  EXPECT_EQ(exported("trtllm", gpu_profile({{"kv_type", "fp8"}}), inputs).config(),
            nlohmann::json::parse(R"({"kv_cache_config":{"dtype":"fp8"}})"));
}

TEST(Translate, RelationsBetweenDegrees) {
  EXPECT_TRUE(has_flag(exported("vllm", gpu_profile({{"tensor_parallel", "4"}, {"expert_parallel", "4"}})),
                       "--enable-expert-parallel"));
  EXPECT_NE(lost(exported("vllm", gpu_profile({{"tensor_parallel", "2"}, {"expert_parallel", "4"}})),
                 "expert_parallel"),
            nullptr);
  EXPECT_TRUE(has_words(exported("sglang", gpu_profile({{"tensor_parallel", "4"}, {"expert_parallel", "2"}})),
                        {"--ep-size", "2"}));
  EXPECT_NE(lost(exported("vllm", gpu_profile({{"prefill_chunk", "16"}, {"max_sequences", "64"}})),
                 "prefill_chunk"),
            nullptr);
}

TEST(Translate, MemoryIsSetOnlyFromBytesThatAreTheServersToo) {
  EXPECT_TRUE(has_words(exported("vllm", gpu_profile({})), {"--gpu-memory-utilization", "0.44"}));
  EXPECT_FALSE(
      has_flag(exported("vllm", gpu_profile({{"expert_quant", "int4"}})), "--gpu-memory-utilization"));
  LaunchProfile full = gpu_profile({});
  full.recommended.evidence.front().value = 149e9;
  EXPECT_FALSE(has_flag(exported("vllm", full), "--gpu-memory-utilization"));
  // A tenth of a small model's bytes is less than a server needs before its first weight.
  LaunchProfile small = gpu_profile({});
  for (Evidence& evidence : small.recommended.evidence)
    if (evidence.metric == "device_bytes") evidence.value = 18e6;
  EXPECT_FALSE(has_flag(exported("vllm", small), "--gpu-memory-utilization"));
}

TEST(Translate, SyntheticAndFoldedAreSaid) {
  LaunchProfile profile = gpu_profile({});
  EXPECT_EQ(exported("vllm", profile).caution, "");
  profile.synthetic_weights = true;
  EXPECT_TRUE(exported("vllm", profile).caution.starts_with("SYNTHETIC WEIGHTS"));
  profile.model = "deepseek-v3:fold=4";
  EXPECT_TRUE(has_text(exported("vllm", profile).caution, "FOLDED"));
}

TEST(Translate, BothSpellingsOfAKnob) {
  EXPECT_EQ(exported("vllm", gpu_profile({{"router_top_k", "4"}})).arguments(),
            exported("vllm", gpu_profile({{"top_k", "4"}})).arguments());
}

TEST(Translate, KnobsOfAnotherBuildAreListed) {
  const ServerCommand command = exported("vllm", gpu_profile({{"warp_factor", "9"}}));
  ASSERT_NE(lost(command, "warp_factor"), nullptr);
  EXPECT_THROW(exported("vllm", gpu_profile({{"top_k", "many"}})), InputError);
}

}  // namespace
}  // namespace moetune
