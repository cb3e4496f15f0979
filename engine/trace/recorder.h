// Records a routing trace: sequences one after the other, each a prompt in steps as long as the engine takes
// and an answer token by token, fed with text (teacher-forced). The same loop goes over a trace again, to
// count and time what an expert cache really does with it. Start at record_trace() and run_trace().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/trace/routing_trace.h"

namespace moetune {

struct TracedText {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> kinds;  // per id: an index into TracePlan::kind_names
};

struct TracePlan {
  std::vector<TracedText> sequences;  // prompt and answer of each
  int prompt_tokens = 0;              // at least 1
  std::vector<std::string> kind_names;
};

RoutingTrace record_trace(Engine& engine, const TracePlan& plan);

// What a sequence of the trace was like on an engine: counters of its decode steps, and how long they took.
struct SequenceRun {
  std::int64_t prompt_misses = 0;
  std::int64_t steps = 0;  // decode steps
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t ahead = 0;
  std::int64_t ahead_in_vain = 0;
  double seconds = 0.0;
};

// Feeds the trace's tokens again with the experts of the trace in place of the router's choice, from an empty
// expert cache on or one that holds the hottest of `prewarmed`. One entry per sequence, in the order of the
// trace.
std::vector<SequenceRun> run_trace(Engine& engine, const RoutingTrace& trace,
                                   std::span<const Engine::HotExpert> prewarmed = {});

// The experts of a trace by how often its tokens choose them, most often first: a profile to prewarm with.
std::vector<Engine::HotExpert> hottest_experts(const ModelSpec& spec, const RoutingTrace& trace);

// Room that both need. step_tokens: most tokens of a prompt's step.
EngineLimits trace_limits(int context_tokens, int step_tokens);

}  // namespace moetune
