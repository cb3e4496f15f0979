// Token after token from prompts, several sequences side by side. Used by latency measurements and tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace moetune {

struct Generated {
  std::vector<std::vector<std::int32_t>> ids;  // per prompt: the new tokens
  std::vector<double> prefill_seconds;  // per prompt: from its first token in to its first new token out
  std::vector<double>
      step_seconds;  // per decoding step of all sequences together; the first token is no step
};

// Feeds prompt i into slot i, then decodes all of them in step until each has new_tokens. Contexts stay in
// their slots. Throws InputError when prompts, lengths or ids do not fit the engine's limits.
Generated generate(Engine& engine, std::span<const std::vector<std::int32_t>> prompts, int new_tokens,
                   const Sampling& sampling = {});

}  // namespace moetune
