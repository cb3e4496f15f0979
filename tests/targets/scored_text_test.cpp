// Windows that accuracy is scored on.
#include "tuner/targets/scored_text.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

TokenSource counting(std::int64_t tokens) {
  TokenSource text{.from_text = true,
                   .description = "numbers",
                   .ids = std::vector<std::int32_t>(static_cast<std::size_t>(tokens))};
  std::iota(text.ids.begin(), text.ids.end(), 0);
  return text;
}

TEST(ScoredText, WindowsAreConsecutiveTokensAndDoNotOverlap) {
  const ScoredText text = ScoredText::of(counting(100000), 4096, 16384);
  EXPECT_EQ(text.scored(), 256);
  EXPECT_EQ(text.warm_up(), 16);
  EXPECT_EQ(text.groups(), 8);
  EXPECT_EQ(text.positions_per_group(), 2048);
  std::set<std::int32_t> seen;
  for (int group = 0; group < text.groups(); ++group)
    for (int slot = 0; slot < ScoredText::windows_per_group; ++slot) {
      const auto window = text.window(group, slot);
      ASSERT_EQ(window.size(), 273U);
      for (std::size_t i = 0; i < window.size(); ++i)
        EXPECT_EQ(window[i], window[0] + static_cast<std::int32_t>(i));
      for (const std::int32_t token : window)
        EXPECT_TRUE(seen.insert(token).second) << token << " is scored twice";
    }
}

TEST(ScoredText, FewerGroupsAreThePrefixOfMore) {
  const TokenSource source = counting(100000);
  const ScoredText few = ScoredText::of(source, 4096, 2048);
  const ScoredText many = ScoredText::of(source, 4096, 16384);
  ASSERT_EQ(few.groups(), 1);
  for (int slot = 0; slot < ScoredText::windows_per_group; ++slot)
    EXPECT_TRUE(std::ranges::equal(few.window(0, slot), many.window(0, slot)));
  EXPECT_EQ(few.hash(0), many.hash(0));
  EXPECT_NE(many.hash(0), many.hash(1));
}

TEST(ScoredText, OneGroupSpreadsOverTheWholeText) {
  const ScoredText text = ScoredText::of(counting(100000), 4096, 2048);
  std::vector<std::int32_t> starts;
  for (int slot = 0; slot < ScoredText::windows_per_group; ++slot) starts.push_back(text.window(0, slot)[0]);
  std::ranges::sort(starts);
  EXPECT_LT(starts.front(), 15000);
  EXPECT_GT(starts.back(), 80000);
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_LT(starts[i] - starts[i - 1], 30000);
}

TEST(ScoredText, ShortContextsGiveShortWindows) {
  const ScoredText text = ScoredText::of(counting(10000), 40, 1000);
  EXPECT_EQ(text.warm_up(), 10);
  EXPECT_EQ(text.scored(), 30);
  EXPECT_EQ(text.groups(), 5);  // 240 positions each
}

TEST(ScoredText, ShortTextsGiveFewerGroupsOrAnError) {
  EXPECT_EQ(ScoredText::of(counting(5000), 4096, 16384).groups(), 2);
  const std::string message = message_of<InputError>([] { ScoredText::of(counting(2183), 4096, 2048); });
  EXPECT_TRUE(has_text(message, "2183 tokens"));
  EXPECT_TRUE(has_text(message, "at least 2184"));
  EXPECT_EQ(ScoredText::of(counting(2184), 4096, 2048).groups(), 1);
}

}  // namespace
}  // namespace moetune
