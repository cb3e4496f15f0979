// How a preset's tokens are routed: statistics of the published model, and the generator's settings that were
// fitted to them. Read from the preset's file; kernels/synthetic_logits.h says what the settings do.
#pragma once

#include <optional>
#include <string>

namespace moetune {

// What was published, as a range; empty: nothing was.
struct PublishedShare {
  double low = 0.0;
  double high = 1.0;
};

struct SyntheticRouting {
  std::string source;  // of the statistics
  // Shares of a token's experts.
  std::optional<PublishedShare> same_expert;   // chosen for the next token again
  std::optional<PublishedShare> first_choice;  // of first choices only: the same at the next token
  std::optional<PublishedShare> within_8;      // chosen again within the next eight tokens
  std::optional<PublishedShare> top_share;     // of all choices: those of the 40 % most chosen experts
  std::optional<PublishedShare> lru_hit;       // in a cache of 40 % of a layer's experts
  std::optional<PublishedShare> next_layer;    // foreseen from the layer before

  // In units of the draw that is fresh for every token.
  double popularity = 0.0;  // per natural logarithm of an expert's rank
  double held = 0.0;
  int hold_tokens = 1;
  double surprise = 0.0;
};

}  // namespace moetune
