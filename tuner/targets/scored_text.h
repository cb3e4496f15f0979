// Where accuracy is scored: windows of the calibration text, each fed token by token, its first tokens
// unscored because a context that short is not what a user has. Windows come in groups of eight that step
// side by side. Start at ScoredText::of(). Group 0, 1, 2 ... are nested subsets: each spreads over the whole
// text, so that fewer groups are a coarser look at the same thing and not a look at its beginning.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace moetune {

class ScoredText {
 public:
  static constexpr int windows_per_group = 8;
  static constexpr std::int64_t warm_up_tokens = 16;  // at most; a quarter of short contexts
  static constexpr std::int64_t scored_tokens = 256;  // per window, at most

  // max_context: of the model. wanted_positions: as many groups are set aside as give at least that many
  // scored positions, as far as the text reaches. Throws InputError when the text does not fill one group.
  static ScoredText of(const TokenSource& text, int max_context, std::int64_t wanted_positions);

  std::int64_t warm_up() const { return warm_up_; }
  std::int64_t scored() const { return scored_; }  // positions per window
  std::int64_t context_tokens() const { return warm_up_ + scored_; }
  int groups() const { return static_cast<int>(windows_.size()) / windows_per_group; }
  std::int64_t positions_per_group() const { return windows_per_group * scored_; }

  // warm_up + scored + 1 tokens; the last one is only predicted, never fed.
  std::span<const std::int32_t> window(int group, int slot) const;

  // Of one group's tokens, hex: the same text cut the same way.
  std::string hash(int group) const;

 private:
  std::int64_t warm_up_ = 0;
  std::int64_t scored_ = 0;
  std::vector<std::vector<std::int32_t>> windows_;
};

}  // namespace moetune
