// Runs of a prompt and an answer on an engine, with what they took and what its expert cache counted: shared
// by the benches that compare caches.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/engine.h"

namespace moetune::bench {

struct RunShape {
  int sequences = 1;
  int rounds = 1;  // a prompt and an answer each, behind what is there already
  int prompt = 64;
  int answer = 128;
  int runs = 3;  // the first warms up and is not counted

  EngineLimits limits() const {
    return {.sequences = sequences,
            .context_tokens = rounds * (prompt + answer),
            .step_tokens = std::max(prompt, sequences),
            .logit_rows = sequences};
  }
};

struct DecodeRuns {
  std::vector<double> step_ms;  // by the device's clock
  std::vector<double>
      prompt_ms;  // until its logits are there, by the host's; of all sequences, one after the other
  std::vector<double> run_ms;  // all rounds of a run
  RunStats stats;              // of the decoded steps
  std::int64_t device_bytes = 0;

  template <class T>
  double per_step(T sum) const {
    return static_cast<double>(sum) / static_cast<double>(step_ms.size());
  }
};

inline void add(RunStats& sum, const RunStats& more) {
  sum.expert_hits += more.expert_hits;
  sum.expert_misses += more.expert_misses;
  sum.expert_missing_layers += more.expert_missing_layers;
  sum.expert_bytes_read += more.expert_bytes_read;
  sum.expert_load_seconds += more.expert_load_seconds;
  sum.host_waits += more.host_waits;
  sum.experts_ahead += more.experts_ahead;
  sum.experts_ahead_in_vain += more.experts_ahead_in_vain;
}

// Prompts of random ids, other ones in every run and the same for every engine.
inline DecodeRuns decode_runs(Engine& engine, const RunShape& shape) {
  using Clock = std::chrono::steady_clock;
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> any_id(0, engine.spec().vocabulary - 1);
  const auto ms_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  DecodeRuns all;
  for (int run = 0; run < shape.runs; ++run) {
    const Clock::time_point run_began = Clock::now();
    for (int round = 0; round < shape.rounds; ++round) {
      const int position = round * (shape.prompt + shape.answer);
      std::vector<StepToken> first;
      const Clock::time_point prompt_began = Clock::now();
      for (int sequence = 0; sequence < shape.sequences; ++sequence) {
        std::vector<StepToken> prompt;
        for (int i = 0; i < shape.prompt; ++i)
          prompt.push_back({.id = any_id(random),
                            .sequence = sequence,
                            .position = position + i,
                            .wants_logits = i + 1 == shape.prompt});
        engine.forward(prompt);
        first.push_back({.id = any_id(random), .sequence = sequence, .position = position + shape.prompt});
      }
      const double prompt_ms = ms_since(prompt_began);
      engine.reset_stats();
      // One seed for all runs: another one would have the graphs recorded again.
      const Decoded decoded = engine.decode(
          {.first = first, .steps = shape.answer, .sampling = {.temperature = 1.0F, .seed = 1}});
      if (run == 0) continue;
      all.prompt_ms.push_back(prompt_ms);
      for (const double seconds : decoded.step_seconds) all.step_ms.push_back(1e3 * seconds);
      add(all.stats, engine.stats());
    }
    if (run > 0) all.run_ms.push_back(ms_since(run_began));
  }
  all.device_bytes = engine.stats().device_bytes;
  return all;
}

}  // namespace moetune::bench
