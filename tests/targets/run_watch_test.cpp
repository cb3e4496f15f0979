// Runs while they are measured: raw times are kept, those of a throttled machine are left out and counted.
#include "tuner/targets/run_watch.h"

#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_moe_runs.h"
#include "tuner/sample_series.h"
#include "tuner/targets/latency.h"

namespace moetune {
namespace {

class WatchedRuns : public testing::TinyMoeRuns {
 protected:
  LatencyResult measured(const RunObserver& observe) {
    const Workload workload{.name = "w", .prompt_tokens = 8, .output_tokens = 9};
    Engine engine(checkpoint_, {}, limits_of(workload, {}));
    return measure_latency(
        engine, workload, text_, 0.3, [](const std::string&) {}, {}, testing::one_ms_per_token, observe);
  }
};

TEST_F(WatchedRuns, ThoseOfAThrottledMachineAreLeftOutAndCounted) {
  std::int64_t seen = 0;
  std::int64_t throttled = 0;
  const LatencyResult result = measured([&](const RunTimes&, bool is_warm_up) {
    if (is_warm_up) return true;
    const bool counts = ++seen % 3 != 0;
    throttled += counts ? 0 : 1;
    return counts;
  });
  EXPECT_GT(throttled, 0);
  EXPECT_EQ(result.metrics.at("tpot_ms").throttled, throttled);
  EXPECT_EQ(result.metrics.at("ttft_ms").n, seen - throttled);
}

TEST_F(WatchedRuns, WhereTheyAreMostOfTheRunsTheyCountAndThatIsSaid) {
  const LatencyResult result = measured([](const RunTimes&, bool) { return false; });
  EXPECT_EQ(result.metrics.at("tpot_ms").value, 1.0);
  EXPECT_NE(result.metrics.at("tpot_ms").stopped.find("throttled in "), std::string::npos)
      << result.metrics.at("tpot_ms").stopped;
}

TEST(RunWatch, KeepsWhatItSees) {
  const TemporaryDirectory folder;
  const std::string file = folder / "samples.jsonl";
  std::ofstream(file) << header_line({{"model", "tiny-moe"}});
  std::int64_t count = 0;
  RunWatch watch(file, [&] { return std::optional(count); });
  RunTimes times;
  times.requests = {
      {.arrived_ms = 0.0, .began_ms = 0.0, .first_ms = 8.0, .last_ms = 10.0, .task = 0, .tokens = 3}};
  times.token_ms = {0.5, 1.5};
  EXPECT_TRUE(watch.add(times, true));
  ++count;
  EXPECT_FALSE(watch.add(times, false)) << "throttled";
  const SampleSeries series = read_sample_series(file);
  ASSERT_EQ(series.processes.size(), 1U);
  EXPECT_EQ(series.processes[0].pid, ::getpid());
  ASSERT_EQ(series.processes[0].runs.size(), 2U);
  const SampleRun& first = series.processes[0].runs[0];
  EXPECT_TRUE(first.is_warm_up);
  EXPECT_FALSE(first.is_throttled);
  EXPECT_EQ(first.ttft_ms, 8.0);
  EXPECT_EQ(first.tpot_ms, 1.0);
  EXPECT_EQ(first.token_ms, times.token_ms);
  EXPECT_TRUE(series.processes[0].runs[1].is_throttled);
}

TEST(RunWatch, NeedsItsFile) { EXPECT_THROW(RunWatch("no/such/file", {}), std::runtime_error); }

}  // namespace
}  // namespace moetune
