// The line about 15 ms per token.
#include "tuner/commands/tax_limit.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

// Synchronisation and launch gaps of that many milliseconds in all.
Breakdown token_with(double tax_ms) {
  Breakdown one;
  one.token_ns = 4e7;
  one.exposed_ns[static_cast<std::size_t>(Part::synchronisation)] = 0.75e6 * tax_ms;
  one.exposed_ns[static_cast<std::size_t>(Part::launch_gaps)] = 0.25e6 * tax_ms;
  one.exposed_ns[static_cast<std::size_t>(Part::compute)] = 2e7;
  return one;
}

PhaseTax phase(double typical_ms, std::optional<double> slowest_ms = {}) {
  PhaseTax phase;
  phase.typical = token_with(typical_ms);
  if (slowest_ms) phase.slowest = token_with(*slowest_ms);
  return phase;
}

TEST(TaxLimit, SaysWhetherItStaysUnder) {
  EXPECT_EQ(tax_limit_text(phase(0.0412)), "The tax stays under 15 ms per token: 0.0412 ms.");
  EXPECT_EQ(tax_limit_text(phase(15.5)), "The tax does NOT stay under 15 ms per token: 15.5 ms.");
  EXPECT_EQ(tax_limit_text(phase(3.0, 4.0)),
            "The tax stays under 15 ms per token: 3 ms, in the slowest hundredth 4 ms.");
  EXPECT_EQ(tax_limit_text(phase(3.0, 21.0)),
            "The tax stays under 15 ms per token: 3 ms, in the slowest hundredth 21 ms, which is NOT.");
}

TEST(TaxLimit, AsJson) {
  EXPECT_EQ(tax_limit_json(phase(3.0)), (nlohmann::json{{"limit_ms", 15.0}, {"is_under", true}}));
  EXPECT_EQ(tax_limit_json(phase(3.0, 21.0)).at("is_under_when_slowest"), false);
}

TEST(TaxLimit, OfNothingIsNothing) {
  PhaseTax refused = phase(3.0);
  refused.typical.refused = "recording changed the times";
  EXPECT_EQ(tax_limit_text(refused), "");
  EXPECT_TRUE(tax_limit_json(refused).is_null());
}

}  // namespace
}  // namespace moetune
