// Which steps an engine accepts, and how long each sequence's context is after them. Start at
// ContextLengths::accept().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace moetune {

class ContextLengths {
 public:
  ContextLengths(const EngineLimits& limits, int vocabulary);

  // Checks a whole step against limits and contexts, then lengthens (or shortens, where a tail is
  // overwritten) the contexts. Throws InputError naming the token's place in the step, with nothing changed.
  void accept(std::span<const StepToken> step);

  void forget();  // all contexts empty
  int length(int sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }

 private:
  EngineLimits limits_;
  int vocabulary_;
  std::vector<int> lengths_;
  std::vector<int> next_;  // lengths after the tokens looked at so far
  std::vector<bool> in_step_;
};

}  // namespace moetune
