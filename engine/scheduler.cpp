#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>

namespace moetune {

Scheduler::Scheduler(const EngineLimits& limits, bool prefix_cache)
    : limits_(limits), prefix_cache_(prefix_cache), slots_(static_cast<std::size_t>(limits.sequences)) {}

int Scheduler::add(const ServedRequest& request) {
  assert(request.prompt_tokens >= 1 &&
         request.prompt_tokens + request.answer_tokens <= std::ssize(request.text));
  const int number = static_cast<int>(requests_.size());
  requests_.push_back(request);
  waiting_.push_back(number);
  return number;
}

bool Scheduler::has_free_slot() const {
  return waiting_.size() < static_cast<std::size_t>(std::ranges::count(slots_, -1, &Slot::request));
}

bool Scheduler::is_idle() const {
  return waiting_.empty() && std::ranges::all_of(slots_, [](const Slot& slot) { return slot.request < 0; });
}

bool Scheduler::is_decoding(const Slot& slot) const {
  return slot.request >= 0 && slot.position >= request_of(slot).prompt_tokens;
}

// Tokens of the prompt that need not be read again. Its last one does: the answer comes from its logits.
int Scheduler::cached_prefix(const Slot& slot, const ServedRequest& request) const {
  if (!prefix_cache_) return 0;
  const auto prompt = request.text.first(static_cast<std::size_t>(request.prompt_tokens - 1));
  return static_cast<int>(std::ranges::mismatch(prompt, slot.cached).in1 - prompt.begin());
}

// The free slot that holds most of the prompt; among equals the one that was left alone for longest.
int Scheduler::slot_for(const ServedRequest& request) const {
  int best = -1;
  int best_prefix = -1;
  for (int i = 0; i < limits_.sequences; ++i) {
    const Slot& slot = slots_[static_cast<std::size_t>(i)];
    if (slot.request >= 0) continue;
    const int prefix = cached_prefix(slot, request);
    const bool is_older = best >= 0 && slot.last_used < slots_[static_cast<std::size_t>(best)].last_used;
    if (prefix > best_prefix || (prefix == best_prefix && is_older)) {
      best = i;
      best_prefix = prefix;
    }
  }
  return best;
}

void Scheduler::admit(std::vector<int>& began) {
  while (!waiting_.empty()) {
    const int number = waiting_.front();
    const int place = slot_for(requests_[static_cast<std::size_t>(number)]);
    if (place < 0) return;
    waiting_.pop_front();
    Slot& slot = slots_[static_cast<std::size_t>(place)];
    slot.request = number;
    slot.position = cached_prefix(slot, request_of(slot));
    slot.answered = 0;
    slot.last_used = ++admissions_;
    reused_tokens_ += slot.position;
    reading_.push_back(place);
    began.push_back(number);
  }
}

void Scheduler::add_prompts(std::vector<StepToken>& tokens) const {
  for (const int place : reading_) {
    const Slot& slot = slots_[static_cast<std::size_t>(place)];
    const ServedRequest& request = request_of(slot);
    for (int position = slot.position; position < request.prompt_tokens; ++position) {
      if (std::ssize(tokens) == limits_.step_tokens) return;
      tokens.push_back({.id = request.text[static_cast<std::size_t>(position)],
                        .sequence = place,
                        .position = position,
                        .wants_logits = request.answer_tokens > 0 && position + 1 == request.prompt_tokens});
    }
  }
}

void Scheduler::plan_decoding(Batch& batch, int most_steps) const {
  batch.decode_steps = std::max(1, most_steps);
  for (const StepToken& token : batch.tokens) {
    const Slot& slot = slots_[static_cast<std::size_t>(token.sequence)];
    batch.decode_steps = std::min(batch.decode_steps, request_of(slot).answer_tokens - slot.answered);
  }
  for (int step = 1; step <= batch.decode_steps; ++step)
    for (const StepToken& token : batch.tokens)
      batch.forced.push_back(request_of(slots_[static_cast<std::size_t>(token.sequence)])
                                 .text[static_cast<std::size_t>(token.position + step)]);
}

Batch Scheduler::next(int most_decode_steps) {
  Batch batch;
  admit(batch.began);
  // Answers first: a prompt, however long, must not stand in their way for more than a step.
  for (int place = 0; place < limits_.sequences; ++place) {
    const Slot& slot = slots_[static_cast<std::size_t>(place)];
    if (is_decoding(slot))
      batch.tokens.push_back({.id = request_of(slot).text[static_cast<std::size_t>(slot.position)],
                              .sequence = place,
                              .position = slot.position});
  }
  if (reading_.empty() && !batch.tokens.empty())
    plan_decoding(batch, most_decode_steps);
  else
    add_prompts(batch.tokens);
  return batch;
}

void Scheduler::answered(Slot& slot, int step, std::vector<ServedToken>& out) {
  const ServedRequest& request = request_of(slot);
  const int index = slot.answered++;
  const bool is_last = slot.answered >= request.answer_tokens;
  out.push_back({.request = slot.request,
                 .step = step,
                 .index = request.answer_tokens == 0 ? -1 : index,
                 .is_last = is_last});
  if (is_last) slot.request = -1;
}

std::vector<ServedToken> Scheduler::ran(const Batch& batch) {
  std::vector<ServedToken> out;
  for (int step = 0; step < std::max(1, batch.decode_steps); ++step)
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const StepToken& token = batch.tokens[i];
      Slot& slot = slots_[static_cast<std::size_t>(token.sequence)];
      const std::int32_t id =
          step == 0 ? token.id : batch.forced[static_cast<std::size_t>(step - 1) * batch.tokens.size() + i];
      slot.cached.resize(static_cast<std::size_t>(slot.position));
      slot.cached.push_back(id);
      const bool reads_prompt = ++slot.position < request_of(slot).prompt_tokens;
      if (!reads_prompt) answered(slot, step, out);
    }
  std::erase_if(reading_, [&](int place) {
    const Slot& slot = slots_[static_cast<std::size_t>(place)];
    return slot.request < 0 || is_decoding(slot);
  });
  return out;
}

}  // namespace moetune
