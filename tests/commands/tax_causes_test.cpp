#include "tuner/commands/tax_causes.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

// Communication, expert loading, synchronisation, router, launch gaps, compute.
Breakdown token(double ns, std::array<double, kParts> exposed_ns) {
  Breakdown one;
  one.token_ns = ns;
  one.exposed_ns = exposed_ns;
  one.n = 100;
  return one;
}

PhaseTax phase(double slow_ns, std::array<double, kParts> slow_parts) {
  PhaseTax tax;
  tax.typical = token(1e6, {0.0, 1e5, 5e4, 1e5, 5e4, 7e5});
  tax.typical_causes.expert_loads = 2.0;
  tax.slowest = token(slow_ns, slow_parts);
  tax.slowest_causes.expert_loads = 2.0;
  return tax;
}

TEST(CauseOfSlowest, IsThePartThatHoldsMostOfIt) {
  PhaseTax tax = phase(3e6, {0.0, 1.9e6, 1e5, 1e5, 2e5, 7e5});
  tax.slowest_causes.expert_loads = 9.25;
  EXPECT_EQ(
      cause_of_slowest(tax, {}),
      "The slowest 1 % take 2.0000 ms more, 90 % of it expert loading. Beside it: misses (9.2 expert loads "
      "a token against 2.0).");
}

TEST(CauseOfSlowest, IsNoPartThatHoldsLessThanHalf) {
  const std::string text = cause_of_slowest(phase(3e6, {0.0, 1e6, 9e5, 1e5, 2e5, 8e5}), {});
  EXPECT_TRUE(has_text(text, "in no part more than 45 % of it; nothing else was seen"));
}

TEST(CauseOfSlowest, NamesWhatTheMachineDid) {
  PhaseTax tax = phase(2e6, {0.0, 1e5, 1e6, 1e5, 5e4, 7e5});
  tax.slowest_causes.preemptions = 1.0;
  tax.slowest_causes.minor_faults = 4.0;
  GpuUse use;
  use.held_down_by = {"hw_thermal"};
  const std::string text = cause_of_slowest(tax, use);
  EXPECT_TRUE(has_text(text, "95 % of it synchronisation"));
  EXPECT_TRUE(has_text(text, "another process on our cores (1.0 times a token)"));
  EXPECT_TRUE(has_text(text, "page faults (4.0 a token against 0.0)"));
  EXPECT_TRUE(has_text(text, "held down (hw_thermal)"));
  tax.slowest_causes.is_of_host = false;
  EXPECT_FALSE(has_text(cause_of_slowest(tax, {}), "page faults"));
}

TEST(CauseOfSlowest, IsSaidOnlyWhereThereAreSlowTokens) {
  PhaseTax tax = phase(9e5, {});
  EXPECT_EQ(cause_of_slowest(tax, {}), "The slowest 1 % take no longer than the others.");
  tax.slowest.reset();
  EXPECT_EQ(cause_of_slowest(tax, {}), "");
}

TEST(HostText, ShowsThreadsThatDoSomething) {
  HostUse host{
      .run_ns = 1e7,
      .threads = {{1, "main", 9'800'000, 100'000}, {2, "poll\x1b", 200'000, 0}, {3, "idle", 1'000, 0}},
      .causes = {.minor_faults = 3, .major_faults = 1, .preemptions = 2},
      .runs = 4};
  const std::string text = host_text(host);
  EXPECT_TRUE(has_text(text, "main                9.800    98.0 %                 0.100"));
  EXPECT_TRUE(has_text(text, "and 1 that did less"));
  EXPECT_TRUE(has_text(
      text, "a run takes 10.000 ms; in 4 of them 4 page faults (1 from disk), 2 times a core taken"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const nlohmann::json object = to_json_value(host);
  EXPECT_EQ(object["threads"].size(), 3U);
  EXPECT_DOUBLE_EQ(object["threads"][0]["running_ms"].get<double>(), 9.8);
  host.threads.clear();
  EXPECT_EQ(host_text(host), "");
}

}  // namespace
}  // namespace moetune
