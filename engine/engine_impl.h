// What an Engine holds: its ranks, what they share, and how work reaches all of them. For engine/engine*.cpp
// only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/decode_loop.h"
#include "engine/engine.h"
#include "engine/rank.h"
#include "engine/rank_parts.h"
#include "engine/rank_threads.h"
#include "engine/step_rules.h"
#include "kernels/collective.h"

namespace moetune {

struct Engine::Impl {
  Impl(std::shared_ptr<const Checkpoint> source, const EngineOptions& chosen, const EngineLimits& asked);

  RankSetup setup() const { return {checkpoint, options, limits}; }
  bool reconfigure(const EngineOptions& chosen, const EngineLimits& asked);

  // One rank needs no group; a group in which a rank failed is of no further use.
  void renew_group();
  template <class Work>
  void on_all_ranks(const Work& work) {
    std::atomic<bool> failed{false};
    try {
      threads.run([&](int rank) { work(*ranks[static_cast<std::size_t>(rank)]); },
                  [&] {
                    failed = true;
                    group->abort();
                  });
    } catch (...) {
      if (failed) renew_group();
      throw;
    }
  }

  // engine_steps.cpp
  std::span<const float> forward(std::span<const StepToken> step, Phase phase);
  void start_decode(const DecodeRequest& request);
  Decoded finish_decode();
  Decoded decode_by_steps(const DecodeRequest& request);
  DecodeLoop::Launch launch_for(const Rank& rank) const;
  void accept_all(const DecodeRequest& request);
  void require_usable() const;

  // engine_stats.cpp
  RunStats stats() const;
  void reset_stats();

  std::shared_ptr<const Checkpoint> checkpoint;
  const ModelSpec& spec;
  EngineOptions options;
  EngineLimits asked_limits;
  EngineLimits limits;
  ContextLengths contexts;
  RankThreads threads;
  std::unique_ptr<LocalGroup> group;
  std::vector<std::unique_ptr<Rank>> ranks;
  bool is_usable = true;  // false after a reconfigure() that failed half-way

  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> wanted;
  std::vector<float> logits;
  std::vector<StepToken> prompt_step;
  std::int64_t tokens_run = 0;
  std::int64_t host_waits_before = 0;      // reset_stats()
  bool is_decoding = false;                // between start_decode() and finish_decode()
  std::optional<Decoded> already_decoded;  // the same, where the steps are done already
};

}  // namespace moetune
