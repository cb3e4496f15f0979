// What a server says at /metrics (Prometheus text format), and the few numbers of it that say how loaded it
// is. Start at server_load().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct MetricSample {
  std::string name;    // "vllm:num_requests_waiting"
  std::string labels;  // as they stand between the braces
  double value = 0.0;  // may be NaN or infinite
};

// Every sample line; comments and lines that are none are passed over: it is a stranger's text.
std::vector<MetricSample> metric_samples(std::string_view text);

// Summed over labels (over replicas) for counts, the largest for shares. Empty: the server does not say.
struct ServerLoad {
  std::optional<double> running;      // requests
  std::optional<double> waiting;      // requests
  std::optional<double> preemptions;  // since the server started
  std::optional<double> cache_use;    // share of the KV cache in use, 0..1
};
// Knows the names of vLLM, SGLang and llama.cpp.
ServerLoad server_load(std::string_view text);

}  // namespace moetune
