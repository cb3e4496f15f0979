// What is asked of a model: lengths, sequences, rounds. The named ones stand in workload.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetune {

struct Slo {
  std::string metric;  // one of slo_metrics()
  double limit_ms = 0.0;
};
// What a service level may be about: a metric in milliseconds without its "_ms", or its p99.
std::vector<std::string> slo_metrics();

struct Workload {
  std::string name = "chat";
  int prompt_tokens = 512;
  int output_tokens = 128;
  int sequences = 1;  // side by side
  int rounds = 1;     // agent: prompts after the first are round_prompt_tokens long
  int round_prompt_tokens = 0;
  double tool_gap_seconds = 0.0;  // agent: pause between rounds
  int typed_pieces = 1;           // completion: prompt arrives in equal pieces
  double piece_gap_seconds = 0.0;
  bool prewarmed = false;         // typed pieces are read as they come; otherwise only with the last one
  bool poisson_arrivals = false;  // requests arrive one by one, at random times
  double arrivals_per_s = 0.0;    // of them; 0: 0.8 of what the default configuration completes here
  Slo slo = {};
  std::uint64_t seed = 1;  // which windows of the calibration text

  // Longest context one sequence reaches, in tokens: sizes the KV cache.
  int context_tokens() const {
    return prompt_tokens + output_tokens + (rounds - 1) * (round_prompt_tokens + output_tokens);
  }
};

// chat, completion, agent, long_context, throughput. Throws InputError naming the accepted ones.
Workload workload_named(const std::string& name);
std::vector<std::string> workload_names();
inline constexpr int most_sequences = 256;  // of a workload, and of the knob max_sequences

// tiny-moe was trained on short contexts: it gets a quarter of every length.
Workload quarter_lengths(Workload workload);

// Cuts the lengths to what the model can hold; long_context uses the whole of it. The prompt gives way first;
// where that would leave less prompt than answer, all lengths shrink alike. Throws InputError when nothing is
// left of one.
Workload fitted_to_context(Workload workload, int max_context);

}  // namespace moetune
