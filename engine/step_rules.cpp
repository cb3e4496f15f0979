#include "engine/step_rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

void require(bool holds, std::size_t place, const char* field, std::int64_t found,
             const std::string& accepted) {
  if (!holds)
    throw InputError(fmt::format("token {} of the step, {}", place, field), std::to_string(found), accepted);
}

}  // namespace

ContextLengths::ContextLengths(const EngineLimits& limits, int vocabulary)
    : limits_(limits),
      vocabulary_(vocabulary),
      lengths_(static_cast<std::size_t>(limits.sequences), 0),
      next_(lengths_),
      in_step_(lengths_.size(), false) {}

void ContextLengths::accept(std::span<const StepToken> step) {
  if (step.empty() || step.size() > static_cast<std::size_t>(limits_.step_tokens))
    throw InputError("step", fmt::format("{} tokens", step.size()),
                     fmt::format("1 .. {}", limits_.step_tokens));
  const auto wanting = std::ranges::count_if(step, &StepToken::wants_logits);
  if (wanting > limits_.logit_rows)
    throw InputError("step", fmt::format("{} tokens want logits", wanting),
                     fmt::format("at most {}", limits_.logit_rows));
  next_ = lengths_;
  std::fill(in_step_.begin(), in_step_.end(), false);
  for (std::size_t place = 0; place < step.size(); ++place) {
    const StepToken& token = step[place];
    require(token.id >= 0 && token.id < vocabulary_, place, "id", token.id,
            fmt::format("0 .. {}", vocabulary_ - 1));
    require(token.sequence >= 0 && token.sequence < limits_.sequences, place, "sequence", token.sequence,
            fmt::format("0 .. {}", limits_.sequences - 1));
    const auto sequence = static_cast<std::size_t>(token.sequence);
    const int next = next_[sequence];
    require(token.position >= 0 && token.position < limits_.context_tokens, place, "position", token.position,
            fmt::format("0 .. {}, the context's limit", limits_.context_tokens - 1));
    if (in_step_[sequence])
      require(token.position == next, place, "position", token.position,
              fmt::format("{}, right behind the sequence's token before it", next));
    else
      require(token.position <= next, place, "position", token.position,
              fmt::format("0 .. {}: sequence {} holds {} tokens", next, token.sequence, next));
    next_[sequence] = token.position + 1;
    in_step_[sequence] = true;
  }
  lengths_.swap(next_);
}

void ContextLengths::forget() { std::ranges::fill(lengths_, 0); }

}  // namespace moetune
