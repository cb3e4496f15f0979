// Requests that arrive one by one: how many tokens run, who waits for whom, and the rate that a study keeps.
#include "tuner/targets/arrivals.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_moe_runs.h"

namespace moetune {
namespace {

class Arrivals : public testing::TinyMoeRuns {
 protected:
  Workload workload(double per_s) const {
    Workload workload{.name = "w", .prompt_tokens = 12, .output_tokens = 5, .sequences = 3};
    workload.poisson_arrivals = true;
    workload.arrivals_per_s = per_s;
    return workload;
  }
};

TEST_F(Arrivals, EveryRequestGetsAllItsTokens) {
  for (const double per_s : {0.01, 300.0, 1e6}) {
    const RunTimes times = run(workload(per_s));
    EXPECT_EQ(times.first_token_ms.size(), 6U) << per_s;
    EXPECT_EQ(times.token_ms.size(), 6U * 4U) << per_s;
    EXPECT_EQ(times.output_tokens, 30) << per_s;
    EXPECT_EQ(tokens_, 6 * (12 + 4)) << per_s;
    EXPECT_GT(*std::ranges::min_element(times.first_token_ms), 0.0) << per_s;
    EXPECT_GT(*std::ranges::min_element(times.token_ms), 0.0) << per_s;
  }
}

// At one request in a hundred seconds nobody waits for another, and nobody waits for the hundred seconds.
TEST_F(Arrivals, TimeJumpsToTheNextArrival) {
  const RunTimes seldom = run(workload(0.01));
  EXPECT_GT(seldom.seconds, 20.0);
  for (const double ms : seldom.first_token_ms) EXPECT_NEAR(ms, 12.0, 1e-6);
  // Three read their prompts, step side by side and end together; the other three find a free sequence only
  // then.
  const RunTimes crowd = run(workload(1e6));
  EXPECT_NEAR(crowd.seconds, 2 * (3 * 12 + 4 * 3) * 1e-3, 1e-5);
  const std::vector<double> waits{12, 24, 36, 60, 72, 84};
  ASSERT_EQ(crowd.first_token_ms.size(), waits.size());
  for (std::size_t i = 0; i < waits.size(); ++i) EXPECT_NEAR(crowd.first_token_ms[i], waits[i], 0.1);
}

// Others' prompts stand between two tokens of a request.
TEST_F(Arrivals, APromptDelaysTheTokensOfTheOthers) {
  Workload long_prompts = workload(1e6);
  long_prompts.prompt_tokens = 200;
  const RunTimes crowd = run(long_prompts);
  EXPECT_NEAR(*std::ranges::max_element(crowd.token_ms), 2 * 200 + 3, 1e-6)
      << "the first one waits for two prompts and a step";
  EXPECT_NEAR(*std::ranges::min_element(crowd.token_ms), 3, 1e-6);
}

TEST_F(Arrivals, OneTokenAnswersEndWithTheirPrompt) {
  Workload one = workload(50.0);
  one.output_tokens = 1;
  const RunTimes times = run(one);
  EXPECT_EQ(times.first_token_ms.size(), 6U);
  EXPECT_TRUE(times.token_ms.empty());
}

TEST_F(Arrivals, TheRateIsThatOfBusySequences) {
  const Workload asked = workload(0.0);
  Engine engine(checkpoint_, {}, limits_of(asked, DeviceKind::cpu));
  const double rate = completed_per_s(engine, asked, text_, testing::one_ms_per_token);
  EXPECT_NEAR(rate, 3.0 / ((3 * 12 + 4 * 3) * 1e-3), 1e-6);
}

TEST(ArrivalRate, IsKeptPerKey) {
  const TemporaryDirectory folder;
  const std::string inside = folder.path().string() + "/arrivals";
  EXPECT_EQ(read_arrival_rate(inside, "a"), 0.0);
  EXPECT_EQ(write_arrival_rate(inside, "a", 3.25), "");
  EXPECT_EQ(write_arrival_rate(inside, "b", 1.0 / 3.0), "");
  EXPECT_EQ(read_arrival_rate(inside, "a"), 3.25);
  EXPECT_EQ(read_arrival_rate(inside, "b"), 1.0 / 3.0);
  EXPECT_EQ(read_arrival_rate("", "a"), 0.0);
  EXPECT_NE(write_arrival_rate("", "a", 1.0), "");
}

}  // namespace
}  // namespace moetune
