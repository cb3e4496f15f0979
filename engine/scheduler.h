// Continuous batching: which tokens the engine's next step holds. Requests join and leave while others run:
// each takes a free slot, its prompt is read in pieces beside the others' decode tokens, and with its last
// token the slot is free again. Start at Scheduler::next().
//
// It knows no clock and runs nothing. Whoever drives it runs the batch (Engine::forward() or decode()) and
// reports that with ran(). Three knobs act here: max_sequences is the number of slots and prefill_chunk the
// tokens of a step, both through the engine's limits; prefix_cache decides whether a request begins behind
// what a free slot's KV cache already holds of its prompt.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace moetune {

struct ServedRequest {
  std::span<const std::int32_t>
      text;  // prompt and the answer it is made to give; must stay until its last token is out
  int prompt_tokens = 1;
  int answer_tokens = 0;  // 0: the prompt is only read, for a later request to find in the KV cache
};

struct Batch {
  std::vector<StepToken> tokens;     // of the one step; with decode_steps, what the first of them is fed
  int decode_steps = 0;              // 0: one step for Engine::forward(); else so many for Engine::decode()
  std::vector<std::int32_t> forced;  // decode_steps x tokens, as DecodeRequest has it
  std::vector<int> began;            // requests of which nothing was read before
};

// A token of an answer, or the end of a request without one.
struct ServedToken {
  int request = 0;  // as add() numbered it
  int step = 0;     // of the batch
  int index = 0;    // in the answer; -1: there is none
  bool is_last = false;
};

class Scheduler {
 public:
  // limits: the engine's, as in effect. The slots are empty at first, whatever the engine ran before.
  Scheduler(const EngineLimits& limits, bool prefix_cache);

  // Behind those that wait already; numbered from 0.
  int add(const ServedRequest& request);
  bool is_idle() const;        // nothing waits, nothing runs
  bool has_free_slot() const;  // a request added now would be read in the next batch

  // most_decode_steps: where only answers are left to decode, so many steps at most, until one of them ends.
  Batch next(int most_decode_steps);
  // The tokens that came out, in the order of steps.
  std::vector<ServedToken> ran(const Batch& batch);

  std::int64_t reused_tokens() const { return reused_tokens_; }  // of prompts, found in the KV cache

 private:
  struct Slot {
    int request = -1;  // none: free
    int position = 0;  // of the next token to feed
    int answered = 0;
    std::vector<std::int32_t> cached;  // what its KV cache holds
    std::int64_t last_used = 0;
  };

  void admit(std::vector<int>& began);
  int slot_for(const ServedRequest& request) const;
  int cached_prefix(const Slot& slot, const ServedRequest& request) const;
  bool is_decoding(const Slot& slot) const;
  void add_prompts(std::vector<StepToken>& tokens) const;
  void plan_decoding(Batch& batch, int most_steps) const;
  const ServedRequest& request_of(const Slot& slot) const {
    return requests_[static_cast<std::size_t>(slot.request)];
  }
  void answered(Slot& slot, int step, std::vector<ServedToken>& out);

  EngineLimits limits_;
  bool prefix_cache_;
  std::vector<Slot> slots_;
  std::vector<ServedRequest> requests_;
  std::deque<int> waiting_;
  std::vector<int> reading_;  // slots with a prompt to read, in order of admission
  std::int64_t admissions_ = 0;
  std::int64_t reused_tokens_ = 0;
};

}  // namespace moetune
