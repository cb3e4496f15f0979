#include "tuner/targets/scored_text.h"

#include <algorithm>
#include <string>

#include "engine/content_hash.h"
#include "engine/facts/error.h"

namespace moetune {
namespace {

// The numbers 0 .. count - 1 in bit-reversed order: every prefix is spread evenly over the range.
std::vector<std::int64_t> spread_order(std::int64_t count) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < count) ++bits;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < (std::int64_t{1} << bits); ++i) {
    std::int64_t reversed = 0;
    for (int bit = 0; bit < bits; ++bit)
      if (((i >> bit) & 1) != 0) reversed |= std::int64_t{1} << (bits - 1 - bit);
    if (reversed < count) order.push_back(reversed);
  }
  return order;
}

}  // namespace

ScoredText ScoredText::of(const TokenSource& text, int max_context, std::int64_t wanted_positions) {
  ScoredText result;
  result.warm_up_ = std::min<std::int64_t>(warm_up_tokens, max_context / 4);
  result.scored_ = std::min<std::int64_t>(scored_tokens, max_context - result.warm_up_);
  const std::int64_t window_tokens = result.context_tokens() + 1;
  const std::int64_t slots = std::ssize(text.ids) / window_tokens;
  const std::int64_t wanted_groups =
      (wanted_positions + result.positions_per_group() - 1) / result.positions_per_group();
  const std::int64_t groups = std::min(slots / windows_per_group, wanted_groups);
  if (groups < 1)
    throw InputError(text.description,
                     std::to_string(text.ids.size()) + " tokens are too few to score accuracy on",
                     "at least " + std::to_string(windows_per_group * window_tokens) + " tokens");
  // Windows do not overlap: an overlap would count the same positions twice and make every interval too
  // narrow.
  for (const std::int64_t slot : spread_order(slots)) {
    if (std::ssize(result.windows_) == groups * windows_per_group) break;
    const auto first = text.ids.begin() + slot * window_tokens;
    result.windows_.emplace_back(first, first + window_tokens);
  }
  return result;
}

std::span<const std::int32_t> ScoredText::window(int group, int slot) const {
  return windows_.at(static_cast<std::size_t>(group * windows_per_group + slot));
}

std::string ScoredText::hash(int group) const {
  ContentHash hash;
  for (int slot = 0; slot < windows_per_group; ++slot) hash.add(std::as_bytes(window(group, slot)));
  return hash.hex();
}

}  // namespace moetune
