// Requests that arrive one by one: how many tokens run, who waits for whom, and the rate that a study keeps.
#include "tuner/targets/arrivals.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_moe_runs.h"
#include "tuner/targets/load_metrics.h"

namespace moetune {
namespace {

using testing::options_with;

class Arrivals : public testing::TinyMoeRuns {
 protected:
  Workload workload(double per_s) const {
    Workload workload{.name = "w", .prompt_tokens = 12, .output_tokens = 5, .sequences = 3};
    workload.poisson_arrivals = true;
    workload.arrivals_per_s = per_s;
    return workload;
  }

  // Prompts that happen to begin with the same letter would save a token here and there: every one is read
  // whole.
  RunTimes run_whole(const Workload& workload,
                     std::vector<std::pair<std::string, std::string>> settings = {}) {
    settings.emplace_back("prefix_cache", "off");
    return run(workload, 0, options_with(settings));
  }
};

TEST_F(Arrivals, EveryRequestGetsAllItsTokens) {
  for (const double per_s : {0.0, 0.01, 300.0, 1e6}) {
    const RunTimes times = run(workload(per_s));
    EXPECT_EQ(times.requests.size(), 6U) << per_s;
    EXPECT_EQ(times.token_ms.size(), 6U * 4U) << per_s;
    EXPECT_EQ(times.output_tokens, 30) << per_s;
    EXPECT_EQ(tokens_ + times.reused_tokens, 6 * (12 + 4)) << per_s;
    for (const RequestTimes& request : times.requests) {
      EXPECT_GE(request.began_ms, request.arrived_ms) << per_s;
      EXPECT_GT(request.first_ms, request.began_ms) << per_s;
      EXPECT_GT(request.last_ms, request.first_ms) << per_s;
    }
  }
}

// At one request in a hundred seconds nobody waits for another, and nobody waits for the hundred seconds.
TEST_F(Arrivals, TimeJumpsToTheNextArrival) {
  const RunTimes seldom = run_whole(workload(0.01));
  EXPECT_GT(seldom.seconds, 20.0) << "idle time counts: it is what a rate is made of";
  for (const RequestTimes& request : seldom.requests) {
    EXPECT_NEAR(request.ttft_ms(), 12.0, 1e-6);
    EXPECT_NEAR(request.queue_ms(), 0.0, 1e-6);
    EXPECT_NEAR(request.tpot_ms().value(), 1.0, 1e-6);
  }
}

// Three sequences, steps of 14 tokens. The fourth request begins as soon as the first one is done, while two
// others go on.
TEST_F(Arrivals, SequencesJoinAndLeaveARunningBatch) {
  const RunTimes crowd = run_whole(workload(1e6));
  const std::vector<double> firsts{12, 26, 39, 59, 73, 87};
  const std::vector<double> begins{0, 12, 12, 45, 59, 73};
  ASSERT_EQ(crowd.requests.size(), firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    EXPECT_NEAR(crowd.requests[i].first_ms, firsts[i], 1e-6) << i;
    EXPECT_NEAR(crowd.requests[i].began_ms, begins[i], 1e-6) << i;
    EXPECT_NEAR(crowd.requests[i].ttft_ms(), firsts[i], 0.1)
        << i << ": they all came in the first tenth of a millisecond";
  }
  EXPECT_NEAR(crowd.seconds, 0.096, 1e-9);
}

// Decoding goes on in batches of steps, but none that goes past an arrival for which there is room.
TEST_F(Arrivals, WhoComesInTheMiddleOfAnAnswerBeginsWithTheNextStep) {
  Workload long_answers = workload(20.0);
  long_answers.output_tokens = 200;
  const RunTimes times = run_whole(long_answers);
  const RequestTimes& first = times.requests[0];
  const RequestTimes& second = times.requests[1];
  ASSERT_GT(second.arrived_ms, first.first_ms) << "the rate gives another case than this test is about";
  ASSERT_LT(second.arrived_ms, first.last_ms - 20.0);
  EXPECT_LE(second.queue_ms(), 1.0 + 1e-6) << "one step";
}

TEST_F(Arrivals, MaxSequencesHoldsDownWhoRunsAtOnce) {
  const RunTimes many = run_whole(workload(1e6));
  const std::int64_t bytes_of_three = device_bytes_;
  const RunTimes one = run_whole(workload(1e6), {{"max_sequences", "1"}});
  ASSERT_EQ(one.requests.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(one.requests[i].first_ms, 16.0 * static_cast<double>(i) + 12.0, 1e-6);
  EXPECT_NEAR(*std::ranges::max_element(one.token_ms), 1.0, 1e-6) << "nobody steps beside another";
  EXPECT_GT(one.requests.back().queue_ms(), many.requests.back().queue_ms());
  EXPECT_LT(device_bytes_, bytes_of_three) << "less KV cache";
  run_whole(workload(1e6), {{"max_sequences", "6"}});
  EXPECT_GT(device_bytes_, bytes_of_three);
}

// Others' prompts stand between two tokens of a request: all of one, or what prefill_chunk lets through.
TEST_F(Arrivals, PrefillChunkSaysHowLongAPromptDelaysTheOthers) {
  Workload long_prompts = workload(1e6);
  long_prompts.prompt_tokens = 200;
  const RunTimes whole = run_whole(long_prompts);
  EXPECT_NEAR(*std::ranges::max_element(whole.token_ms), 202.0, 1e-6);
  const RunTimes chunked = run_whole(long_prompts, {{"prefill_chunk", "16"}});
  EXPECT_NEAR(*std::ranges::max_element(chunked.token_ms), 16.0, 1e-6);
  EXPECT_EQ(tokens_, 6 * (200 + 4));
}

TEST_F(Arrivals, OneTokenAnswersEndWithTheirPrompt) {
  Workload one = workload(50.0);
  one.output_tokens = 1;
  const RunTimes times = run(one);
  EXPECT_EQ(times.requests.size(), 6U);
  EXPECT_TRUE(times.token_ms.empty());
}

TEST_F(Arrivals, TheRateIsThatOfBusySequences) {
  const Workload asked = workload(0.0);
  Engine engine(checkpoint_, options_with({{"prefix_cache", "off"}}), limits_of(asked, {}));
  EXPECT_NEAR(completed_per_s(engine, asked, text_, testing::one_ms_per_token), 6.0 / 0.096, 1e-6);
}

// 96 ms a run: three of them beside one to warm up fit into 300 ms, and one into 200.
TEST_F(Arrivals, TheRateOfALongRunComesFromOne) {
  const Workload asked = workload(0.0);
  Engine engine(checkpoint_, options_with({{"prefix_cache", "off"}}), limits_of(asked, {}));
  const auto tokens_at = [&](double most_run_seconds) {
    engine.reset_stats();
    EXPECT_NEAR(completed_per_s(engine, asked, text_, testing::one_ms_per_token, most_run_seconds),
                6.0 / 0.096, 1e-6);
    return engine.stats().tokens;
  };
  EXPECT_EQ(tokens_at(0.3), 2 * tokens_at(0.2));
  EXPECT_THROW(completed_per_s(engine, asked, text_, testing::one_ms_per_token, 0.09), RunTooLong);
}

TEST_F(Arrivals, GoodputCountsWhoKeepsTheLevel) {
  Workload level = workload(1e6);
  level.slo = {"ttft_p99", 40.0};
  LoadSamples samples(level);
  for (int i = 0; i < 6; ++i) samples.add(run_whole(level));
  const Metrics metrics = samples.metrics("enough", std::nullopt);
  EXPECT_NEAR(metrics.at("goodput_per_s").value, 3.0 / 0.096, 1e-6) << "12, 26 and 39 ms of six";
  EXPECT_NEAR(metrics.at("queue_ms").value, (0 + 12 + 12 + 45 + 59 + 73) / 6.0, 0.1);
  EXPECT_EQ(metrics.at("queue_ms").n, 36);
  EXPECT_EQ(metrics.at("request_tpot_ms").n, 36);
  EXPECT_FALSE(metrics.contains("task_ms"));
}

TEST(ArrivalRate, IsKeptInTheFolderOfTheStudy) {
  const TemporaryDirectory folder;
  const std::string path = folder.path().string();
  EXPECT_EQ(read_arrival_rate(path).per_s, 0.0);
  EXPECT_EQ(write_arrival_rate(path, {1.0 / 3.0, ""}), "");
  EXPECT_EQ(read_arrival_rate(path).per_s, 1.0 / 3.0);
  EXPECT_EQ(read_arrival_rate(path).note, "");
  EXPECT_EQ(write_arrival_rate(path, {2.5, "0.8 of what another one completes"}), "");
  EXPECT_EQ(read_arrival_rate(path).per_s, 2.5);
  EXPECT_EQ(read_arrival_rate(path).note, "0.8 of what another one completes");
  EXPECT_EQ(read_arrival_rate("").per_s, 0.0);
  EXPECT_NE(write_arrival_rate("", {1.0, ""}), "");
  EXPECT_NE(write_arrival_rate(path + "/none", {1.0, ""}), "");
}

TEST(ArrivalRate, ThatTheDefaultGivesNoneIsKeptToo) {
  const TemporaryDirectory folder;
  const std::string path = folder.path().string();
  EXPECT_EQ(read_why_no_default_rate(path), "");
  EXPECT_EQ(write_why_no_default_rate(path, "too slow"), "");
  EXPECT_EQ(read_why_no_default_rate(path), "too slow");
  EXPECT_EQ(read_why_no_default_rate(""), "");
}

}  // namespace
}  // namespace moetune
