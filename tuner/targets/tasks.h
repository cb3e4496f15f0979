// What arrives when: a workload as the requests of its tasks. Start at tasks_of().
//
// A task is one conversation: a prompt and its answer, or an agent's rounds of them. Its requests come one
// after the other, and each sends all of the context so far. A prompt that is typed comes as a request for
// each piece, of which only the last one is answered.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/facts/workload.h"
#include "engine/tokenizer.h"

namespace moetune {

struct TaskRequest {
  int round = 0;
  int prompt_tokens = 0;  // of the task's text: everything since its beginning
  int answer_tokens = 0;  // 0: a piece of what is being typed
  double offset_ms =
      0.0;  // after the round began: when it is sent, unless the request before it takes longer
};

struct Task {
  double arrives_ms = 0.0;
  std::vector<std::int32_t> text;  // context_tokens() of them
  std::vector<TaskRequest> requests;
};

// run: its number, which decides text and times of arrival. As many tasks as sequences; where they arrive one
// by one, twice as many (all at once while the rate is not known). keeps_prefixes: without, nothing is sent
// before a prompt is typed to its end, as none of it could be kept.
std::vector<Task> tasks_of(const Workload& workload, const TokenSource& text, std::uint64_t run,
                           bool keeps_prefixes);

}  // namespace moetune
