// Profiles and inputs for the export tests.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "engine/facts/knobs.h"
#include "engine/facts/launch_profile.h"
#include "tests/support/source_dir.h"
#include "tuner/export/knob_names.h"
#include "tuner/export/server_table.h"
#include "tuner/export/translate.h"

namespace moetune {

inline std::string flags_folder() { return source_dir() + "/tuner/export/flags"; }

inline const std::vector<ServerTable>& server_tables() {
  static const std::vector<ServerTable> tables = read_server_tables(flags_folder());
  return tables;
}

inline const KnobNames& knob_names() {
  static const KnobNames names = read_knob_names(flags_folder() + "/names.json");
  return names;
}

inline LaunchProfile gpu_profile(const std::map<std::string, std::string>& configuration) {
  LaunchProfile profile;
  profile.model = "qwen3-30b-a3b";
  profile.hardware.device = "NVIDIA H200";
  profile.hardware.device_bytes = 150'000'000'000;
  profile.hardware.cpu_cores = 16;
  profile.objectives = {"tpot_ms"};
  profile.gate = "int8";
  profile.recommended.trial = 23;
  profile.recommended.configuration = configuration;
  Evidence tpot;
  tpot.metric = "tpot_ms";
  tpot.value = 5.0;
  tpot.low = 4.9;
  tpot.high = 5.1;
  Evidence bytes;
  bytes.metric = "device_bytes";
  bytes.value = 60e9;
  profile.recommended.evidence = {bytes, tpot};
  return profile;
}

inline ExportModel qwen3() {
  return {
      .architecture = "Qwen3MoeForCausalLM",
      .experts = 128,
      .routing_layers = 48,
      .leading_dense_layers = 0,
      .expert_bytes = 9'437'184,
      .shipped = {{"router_top_k", "8"}, {"expert_quantization", "bf16"}, {"dense_quantization", "bf16"}}};
}

inline ExportInputs all_inputs() {
  return {.given = {{"server_model", "Qwen/Qwen3-30B-A3B"},
                    {"gguf", "/models/qwen3.gguf"},
                    {"kt_weights", "/models/kt"},
                    {"kt_method", "AMXINT4"}},
          .server_version = "",
          .model = qwen3(),
          .take_nearest = false};
}

inline ServerCommand exported(const std::string& server, const LaunchProfile& profile,
                              const ExportInputs& inputs = all_inputs()) {
  return translate(profile, server_named(server_tables(), "--server", server), knob_names(), inputs);
}

// Some knobs of the table with values that this engine takes.
inline LaunchProfile random_profile(std::mt19937_64& random) {
  const auto any = [&](const std::vector<std::string>& values) { return values[random() % values.size()]; };
  const std::vector<std::string> types{"checkpoint", "f32",  "bf16",     "fp8",
                                       "int8",       "int4", "int4_g32", "mxfp4"};
  const std::map<std::string, std::vector<std::string>> values{
      {"top_k", {"native", "1", "2", "4", "6", "8", "33"}},
      {"expert_cache", {"1", "0.25", "0.5", "0.015625", "12GiB", "500MB"}},
      {"expert_quant", types},
      {"tensor_parallel", {"1", "2", "4", "8"}},
      {"router", {"gpu", "cpu"}},
      {"cache_policy", {"lru", "lfu", "layer_lru", "pinned"}},
      {"miss", {"dma", "pull", "cpu"}},
      {"prefetch", {"none", "repeat", "next_gate", "markov", "table"}},
      {"cuda_graph", {"on", "off"}},
      {"expert_parallel", {"1", "2", "4", "8"}},
      {"dense_quant", types},
      {"kv_type", {"auto", "f32", "f16", "bf16", "fp8", "int8"}},
      {"prefill_chunk", {"auto", "1", "512", "2048"}},
      {"reroute_margin", {"0", "0.25"}},
      {"top_k_rule", {"static", "threshold:0.9", "per_layer"}},
      {"max_sequences", {"auto", "1", "64", "256"}},
      {"prefix_cache", {"on", "off"}},
      {"cpu_threads", {"auto", "1", "16"}}};
  std::map<std::string, std::string> configuration;
  for (const Knob& knob : knobs()) {
    const auto known = values.find(std::string(knob.name));
    // A knob that is new here has to be added above: what is not exercised is not known to survive.
    if (known == values.end()) throw std::logic_error("no values for knob " + std::string(knob.name));
    if (random() % 3 != 0) configuration[std::string(knob.name)] = any(known->second);
  }
  LaunchProfile profile = gpu_profile(configuration);
  if (random() % 4 == 0) profile.hardware.device = "cpu";
  profile.workload.name = any({"chat", "agent", "throughput"});
  profile.workload.prompt_tokens = static_cast<int>(1 + random() % 40000);
  profile.workload.sequences = static_cast<int>(1 + random() % 256);
  profile.synthetic_weights = random() % 2 == 0;
  profile.recommended.evidence.front().value = 1e9 * static_cast<double>(1 + random() % 160);
  return profile;
}

}  // namespace moetune
