// One run of a workload on an engine, timed: prompts in, tokens out. Start at run_workload().
//
// Decoding is fed the text that follows the prompt in the calibration text instead of the model's own choice,
// which is computed and dropped: every configuration then decodes the same tokens, so their times can be
// compared, and experts are asked for as real text asks for them (a small model left alone soon repeats
// itself, which flatters every cache). Pauses of a workload (tools, typing) are not waited for: nothing of
// ours runs in them. But what is typed faster than it can be read piles up, and the first token waits for
// that.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "tuner/targets/timed_engine.h"

namespace moetune {

struct RunTimes {
  std::vector<double>
      first_token_ms;  // one per prompt: sequences x rounds; from the prompt's last piece to its first token
  std::vector<double>
      token_ms;  // one per decode step: what each of its sequences waits for a token (arrivals.h: each)
  double seconds = 0.0;  // the whole run
  std::int64_t output_tokens = 0;

  double mean_token_ms() const;
  double mean_first_token_ms() const;
  double tokens_per_s() const { return static_cast<double>(output_tokens) / seconds; }
};

// What an engine needs to run the workload. A GPU takes more of a prompt at once than a CPU does: it reads
// all weights in every step, and up to some 2,048 tokens that is much of the step's time
// (reports/h200/prompts.txt).
EngineLimits limits_of(const Workload& workload, DeviceKind device);

// run: its number; other numbers read other windows of the text. Poisson arrivals need arrivals_per_s
// (arrivals.h); without, all sequences start at once. price: of a step, for tests.
RunTimes run_workload(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price = {});

}  // namespace moetune
