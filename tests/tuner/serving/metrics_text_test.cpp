#include "tuner/serving/metrics_text.h"

#include <cmath>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(MetricsText, SamplesWithAndWithoutLabels) {
  const auto samples = metric_samples(
      "# HELP a x\n# TYPE a gauge\na 1\nb{x=\"}\\\"\",y=\"2\"} +2.5e1 1700000000\nc NaN\r\n\nbroken\n9x "
      "1\nd{x=\"1\nd 4x\ne 5");
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[1].labels, "x=\"}\\\"\",y=\"2\"");
  EXPECT_EQ(samples[1].value, 25.0);
  EXPECT_TRUE(std::isnan(samples[2].value));
  EXPECT_EQ(samples[3].value, 5.0);
}

TEST(MetricsText, LoadOfThreeServers) {
  const ServerLoad vllm = server_load(
      "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} "
      "2\nvllm:num_requests_waiting{engine=\"0\"} 1\n"
      "vllm:num_preemptions_total{engine=\"0\"} 7\nvllm:kv_cache_usage_perc{engine=\"0\"} "
      "0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n");
  EXPECT_EQ(vllm.running, 5.0);
  EXPECT_EQ(vllm.waiting, 1.0);
  EXPECT_EQ(vllm.preemptions, 7.0);
  EXPECT_EQ(vllm.cache_use, 0.5);
  const ServerLoad sglang =
      server_load("sglang:num_running_reqs 4\nsglang:num_queue_reqs 9\nsglang:token_usage 0.125\n");
  EXPECT_EQ(sglang.running, 4.0);
  EXPECT_EQ(sglang.waiting, 9.0);
  EXPECT_EQ(sglang.cache_use, 0.125);
  EXPECT_FALSE(sglang.preemptions.has_value());
  const ServerLoad llama = server_load("llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n");
  EXPECT_EQ(llama.running, 1.0);
  EXPECT_EQ(llama.waiting, 2.0);
  EXPECT_FALSE(server_load("vllm:num_requests_running NaN\n").running.has_value());
}

}  // namespace
}  // namespace moetune
