#include "tuner/serving/metrics_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace moetune {
namespace {

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

// The end of the labels that open at text[0] == '{': behind the brace that is in no quotes. npos: there is
// none.
std::size_t end_of_labels(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (text[i] == '}' && !quoted)
      return i + 1;
  }
  return std::string_view::npos;
}

std::optional<MetricSample> sample_in(std::string_view line) {
  std::size_t name_end = 0;
  while (name_end < line.size() && is_name_letter(line[name_end])) ++name_end;
  if (name_end == 0 || (line.front() >= '0' && line.front() <= '9')) return std::nullopt;
  MetricSample sample{std::string(line.substr(0, name_end)), "", 0.0};
  line.remove_prefix(name_end);
  if (line.starts_with('{')) {
    const std::size_t end = end_of_labels(line);
    if (end == std::string_view::npos) return std::nullopt;
    sample.labels = line.substr(1, end - 2);
    line.remove_prefix(end);
  }
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  if (line.starts_with('+')) line.remove_prefix(1);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), sample.value);
  const bool ends = end == line.data() + line.size() || *end == ' ' || *end == '\t' || *end == '\r';
  if (error != std::errc() || !ends) return std::nullopt;
  return sample;
}

using Names = std::array<std::string_view, 4>;  // of one number at different servers and versions

std::optional<double> total(const std::vector<MetricSample>& samples, const Names& names, bool largest) {
  std::optional<double> result;
  for (const MetricSample& sample : samples) {
    if (!std::isfinite(sample.value) || sample.name.empty() ||
        std::ranges::find(names, sample.name) == names.end())
      continue;
    if (!result)
      result = sample.value;
    else
      *result = largest ? std::max(*result, sample.value) : *result + sample.value;
  }
  return result;
}

}  // namespace

std::vector<MetricSample> metric_samples(std::string_view text) {
  std::vector<MetricSample> samples;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.starts_with('#'))
      if (std::optional<MetricSample> sample = sample_in(line)) samples.push_back(*std::move(sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return samples;
}

ServerLoad server_load(std::string_view text) {
  const std::vector<MetricSample> samples = metric_samples(text);
  return {
      .running =
          total(samples,
                {"vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing", ""},
                false),
      .waiting = total(
          samples, {"vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred", ""},
          false),
      .preemptions = total(
          samples, {"vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs", ""},
          false),
      .cache_use = total(samples,
                         {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
                          "llamacpp:kv_cache_usage_ratio"},
                         true)};
}

}  // namespace moetune
