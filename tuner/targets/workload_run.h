// One run of a workload on an engine, timed: requests arrive, wait for a free sequence, are read and answered
// side by side. Start at run_workload(); what arrives when: tasks.h; who runs in which step:
// engine/scheduler.h.
//
// Decoding is fed the text that follows the prompt in the calibration text instead of the model's own choice,
// which is computed and dropped: every configuration then decodes the same tokens, so their times can be
// compared, and experts are asked for as real text asks for them (a small model left alone soon repeats
// itself, which flatters every cache).
//
// Time is counted, not waited for: the clock goes on by what the engine's steps take and jumps to the next
// arrival, key or end of a tool where nothing runs. A busy engine so delays everybody as it would. Of a
// tool's time only the beginning is really played, with a busy CPU (tool_work.h), and it stands in no number.
// pauses_note() says all of that beside every result.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/option_rules.h"
#include "engine/tokenizer.h"
#include "tuner/targets/timed_engine.h"

namespace moetune {

// By the clock of the run, in milliseconds.
struct RequestTimes {
  double arrived_ms = 0.0;  // typed prompts: their last key
  double began_ms = 0.0;  // when a step first held a token of its prompt: until then it waited for a sequence
  double first_ms = 0.0;  // first token of the answer
  double last_ms = 0.0;   // last one
  int task = 0;
  int tokens = 0;  // of the answer

  double queue_ms() const { return began_ms - arrived_ms; }
  double ttft_ms() const { return first_ms - arrived_ms; }
  double total_ms() const { return last_ms - arrived_ms; }
  // Its mean time per token after the first; empty: it has only one.
  std::optional<double> tpot_ms() const {
    return tokens > 1 ? std::optional((last_ms - first_ms) / (tokens - 1)) : std::nullopt;
  }
};

struct RunTimes {
  std::vector<RequestTimes> requests;  // in the order in which their answers began
  std::vector<double> token_ms;        // what a request waited for each token after its first
  std::vector<double> task_ms;  // of each task: all its requests; what tools and typing take is no part of it
  double loading_ms = 0.0;      // of all tasks: the layers waited for experts
  double communication_ms = 0.0;  // of all tasks: collectives
  double seconds = 0.0;           // until the last answer; without Poisson arrivals pauses are no part of it
  std::int64_t output_tokens = 0;
  std::int64_t reused_tokens = 0;  // of prompts, found in the KV cache instead of read again
  std::int64_t tools_played = 0;

  double mean_token_ms() const;
  double mean_first_token_ms() const;
  std::vector<double> first_token_ms() const;
  double tokens_per_s() const { return static_cast<double>(output_tokens) / seconds; }
};

// What an engine needs to run the workload. A GPU takes more of a prompt at once than a CPU does: it reads
// all weights in every step, and up to some 2,048 tokens that is much of the step's time
// (reports/h200/prompts.txt).
EngineLimits limits_of(const Workload& workload, const EngineOptions& options);
// Knobs that this workload could not tell from their default, or that ask for more than it has: no
// configuration of their own.
std::optional<Objection> objection_to_load(const Workload& workload, const EngineOptions& options);

// "tool gaps: 20 ms of each 500 ms are played with a busy CPU, the rest is not waited for; ...": what of the
// workload's time is counted. Empty: it has no pauses.
std::string pauses_note(const Workload& workload);

inline constexpr double no_limit = std::numeric_limits<double>::infinity();

// A run that cannot end within its limit, said as soon as its first steps tell. what(): in words.
class RunTooLong : public std::runtime_error {
 public:
  // seconds: that it would take at least; step_ms: the shortest step so far, 0: none was decoded.
  RunTooLong(double seconds, double step_ms, double most_seconds);
};

// run: its number; other numbers read other windows of the text. Poisson arrivals whose rate is not known
// come all at once. price: of a step, for tests. Throws RunTooLong where what is left of it, at the shortest
// decoding step so far, goes beyond most_seconds; idle time does not count to them.
RunTimes run_workload(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price = {}, double most_seconds = no_limit);

}  // namespace moetune
