#include "tuner/serving/confirmation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/message_of.h"
#include "tuner/launch_profile.h"

namespace moetune {
namespace {

LaunchProfile promising(double tpot_ms) {
  LaunchProfile profile;
  profile.gate = "int8";
  profile.objectives = {"tpot_ms"};
  profile.workload = workload_named("chat");  // tpot_p99 <= 50 ms
  Evidence tpot;
  tpot.metric = "tpot_ms";
  tpot.value = tpot_ms;
  profile.recommended.evidence = {tpot};
  return profile;
}

Metrics served(double low, double high, std::optional<double> p99 = 12.0) {
  Measurement tpot;
  tpot.value = (low + high) / 2;
  tpot.low = low;
  tpot.high = high;
  tpot.p99 = p99;
  tpot.n = 500;
  return {{"tpot_ms", tpot}};
}

TEST(Confirmation, TheIntervalDecides) {
  EXPECT_EQ(judged(promising(10), served(9.8, 10.9), 0.1).verdict, "confirmed");
  EXPECT_EQ(judged(promising(10), served(3.0, 3.1), 0.1).verdict, "confirmed");  // faster
  EXPECT_EQ(judged(promising(10), served(11.2, 11.4), 0.1).verdict, "refuted");
  EXPECT_EQ(judged(promising(10), served(10.9, 11.1), 0.1).verdict, "indeterminate");
  const std::string reason = judged(promising(10), served(11.2, 11.4), 0.1).reason;
  EXPECT_TRUE(has_text(reason, "tpot_ms 11.3 (11.2-11.4) is beyond 10 % above the 10 of our engine"));
}

TEST(Confirmation, SoDoesTheServiceLevel) {
  EXPECT_EQ(judged(promising(10), served(9.8, 10.2, 51.0), 0.1).verdict, "refuted");
  EXPECT_EQ(judged(promising(10), served(9.8, 10.2, std::nullopt), 0.1).verdict, "indeterminate");
  EXPECT_TRUE(has_text(judged(promising(10), served(9.8, 10.2), 0.1).reason,
                       "within the service level tpot_p99 <= 50 ms"));
}

TEST(Confirmation, WithoutAnIntervalNothingIsDecided) {
  Metrics metrics = served(10, 10);
  metrics["tpot_ms"].low.reset();
  metrics["tpot_ms"].high.reset();
  EXPECT_EQ(judged(promising(10), metrics, 0.1).verdict, "indeterminate");
  EXPECT_EQ(judged(promising(10), {}, 0.1).verdict, "indeterminate");
}

TEST(Confirmation, TheLastWordOfEachServerIsShown) {
  const auto one = [](const char* server, const char* verdict, const char* at) {
    Confirmation confirmation;
    confirmation.server = server;
    confirmation.model = "m";
    confirmation.workload = "chat";
    confirmation.verdict = verdict;
    confirmation.measured_at = at;
    confirmation.reason = "why";
    return confirmation;
  };
  std::vector<Confirmation> all = {one("a", "refuted", "1"), one("b", "confirmed", "2")};
  EXPECT_EQ(confirmation_lines(all),
            (std::vector<std::string>{"confirmed by b (model m, workload chat, 2): why",
                                      "REFUTED by a (model m, workload chat, 1): why"}));
  EXPECT_TRUE(is_refuted(all));
  all.push_back(one("a", "confirmed", "3"));
  EXPECT_EQ(confirmation_lines(all).size(), 2U);
  EXPECT_FALSE(is_refuted(all)) << "it has taken it back";
}

TEST(Confirmation, StaysInTheProfile) {
  LaunchProfile profile = promising(10);
  profile.confirmations = {judged(profile, served(9.8, 10.9), 0.1)};
  profile.confirmations[0].measured_at = "2026-11-30T03:00:00Z";
  profile.confirmations[0].server = "http://127.0.0.1:8080";
  const LaunchProfile read = launch_profile_from_json(to_json_value(profile), "profile.json");
  ASSERT_EQ(read.confirmations.size(), 1U);
  EXPECT_EQ(read.confirmations[0].verdict, "confirmed");
  EXPECT_EQ(to_json_value(read), to_json_value(profile));
}

}  // namespace
}  // namespace moetune
