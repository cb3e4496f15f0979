// Values of the command line: what they mean, and that everything else is refused with flag, text and what is
// accepted.
#include "tuner/commands/quantities.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

TEST(Quantities, DurationsHaveUnits) {
  EXPECT_DOUBLE_EQ(parse_duration_seconds("--budget", "90s"), 90.0);
  EXPECT_DOUBLE_EQ(parse_duration_seconds("--budget", "20m"), 1200.0);
  EXPECT_DOUBLE_EQ(parse_duration_seconds("--budget", "1.5h"), 5400.0);
}

TEST(Quantities, PercentagesSayThatTheyAreSome) {
  EXPECT_DOUBLE_EQ(parse_per_cent("--threshold", "5%"), 0.05);
  EXPECT_DOUBLE_EQ(parse_per_cent("--threshold", "0.5 %"), 0.005);
  EXPECT_DOUBLE_EQ(parse_per_cent("--threshold", "100%"), 1.0);
  for (const char* text : {"", "5", "0.05", "%", "0%", "-5%", "101%", "5%%"}) {
    const std::string message = message_of<InputError>([&] { parse_per_cent("--threshold", text); });
    EXPECT_TRUE(has_text(message, "a percentage such as 5%")) << text << ": " << message;
  }
}

TEST(Quantities, OfTwoAssignmentsOfOneNameNoneIsDropped) {
  EXPECT_EQ(parse_assignments("--set", {"b=2", "a=1"}, "name=value").size(), 2U);
  EXPECT_TRUE(has_text(
      message_of<InputError>([] { parse_assignments("--set", {"a=1", "b=2", "a=3"}, "name=value"); }),
      "--set: 'a=3' beside 'a=1' (accepted: each name once)"));
}

TEST(Quantities, PricesAreNumbersAboveZero) {
  EXPECT_DOUBLE_EQ(parse_positive("--usd-per-hour", "0.25"), 0.25);
  EXPECT_DOUBLE_EQ(parse_positive("--years", "1e9"), 1e9);
  for (const char* text : {"", "0", "-1", "1.1e9", "nan", "inf", "1e400", "2x", " 2", "2 ", "0x10"})
    EXPECT_TRUE(
        has_text(message_of<InputError>([&] { parse_positive("--years", text); }), "a number above 0"))
        << text;
}

TEST(Quantities, OtherDurationsAreRefused) {
  for (const char* text :
       {"", "90", "s", "-3s", "0s", "3 m", "3min", "1e400s", "nan s", "inf s", "90ss", "1000000h", "9d"}) {
    const std::string message = message_of<InputError>([&] { parse_duration_seconds("--budget", text); });
    EXPECT_TRUE(has_text(message, "--budget: '" + std::string(text) + "'")) << text;
    EXPECT_TRUE(has_text(message, "90s, 20m or 2h")) << text;
  }
}

TEST(Quantities, ResponseTimesHaveUnits) {
  EXPECT_DOUBLE_EQ(parse_milliseconds("--slo", "20ms"), 20.0);
  EXPECT_DOUBLE_EQ(parse_milliseconds("--slo", "1.5s"), 1500.0);
  for (const char* text : {"", "20", "ms", "0ms", "20m", "20 ms", "nanms"})
    EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_milliseconds("--slo", text); }), "20ms or 1.5s"))
        << text;
}

TEST(Quantities, SizesAreDecimalOrBinary) {
  EXPECT_EQ(parse_bytes("--device-memory", "12GiB"), 12LL << 30);
  EXPECT_EQ(parse_bytes("--device-memory", "500MB"), 500000000);
  EXPECT_EQ(parse_bytes("--device-memory", "1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("--device-memory", "4096"), 4096);
}

TEST(Quantities, OtherSizesAreRefused) {
  for (const char* text : {"", "GiB", "-1GiB", "0", "12gigs", "1e30TB", "12 GiB", "0.1"})
    EXPECT_TRUE(
        has_text(message_of<InputError>([&] { parse_bytes("--device-memory", text); }), "--device-memory: '"))
        << text;
}

TEST(Quantities, WholeNumbersStayInRange) {
  EXPECT_EQ(parse_whole_number("--threads", "7", 1, 8), 7);
  EXPECT_EQ(parse_whole_number("--seed", "9223372036854775807", 0, std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", "0", "9", "1.5", "0x4", " 4", "4 ", "four", "99999999999999999999"})
    EXPECT_TRUE(
        has_text(message_of<InputError>([&] { parse_whole_number("--threads", text, 1, 8); }), "1 to 8"))
        << text;
}

TEST(Quantities, TheBoundOfTheTypeIsSaidToWhoWentBeyondIt) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { parse_whole_number("--seed", "9223372036854775808", 0, most); }),
               "a whole number, 0 to 9223372036854775807"));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_whole_number("--seed", "-1", 0, most); }),
                       "a whole number, 0 or more"));
}

TEST(Quantities, ListsHaveNoEmptyItems) {
  EXPECT_EQ(split_list("--tokens", "1,5,9"), (std::vector<std::string>{"1", "5", "9"}));
  EXPECT_EQ(split_list("--tokens", "1"), (std::vector<std::string>{"1"}));
  for (const char* text : {"", ",", "1,,2", "1,", ",1"})
    EXPECT_TRUE(has_text(message_of<InputError>([&] { split_list("--tokens", text); }), "empty item"))
        << text;
}

TEST(Quantities, AssignmentsHaveBothSides) {
  EXPECT_EQ(parse_assignment("--set", "top_k=6", "knob=value"),
            (std::pair<std::string, std::string>{"top_k", "6"}));
  EXPECT_EQ(parse_assignment("--set", "top_k_rule=threshold:0.5", "knob=value").second, "threshold:0.5");
  for (const char* text : {"", "top_k", "=6", "top_k="})
    EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_assignment("--set", text, "knob=value"); }),
                         "knob=value"))
        << text;
}

}  // namespace
}  // namespace moetune
