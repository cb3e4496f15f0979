#include "tuner/targets/tasks.h"

#include <algorithm>
#include <cmath>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {

// A round's new tokens, in the pieces in which they are typed; the answer comes with the last one.
void add_round(const Workload& workload, int round, int context, bool reads_ahead,
               std::vector<TaskRequest>& requests) {
  const int tokens = round == 0 ? workload.prompt_tokens : workload.round_prompt_tokens;
  const int pieces = std::clamp(workload.typed_pieces, 1, tokens);
  for (int piece = reads_ahead ? 1 : pieces; piece <= pieces; ++piece) {
    const auto typed = static_cast<int>(std::int64_t{tokens} * piece / pieces);
    requests.push_back({.round = round,
                        .prompt_tokens = context + typed,
                        .answer_tokens = piece == pieces ? workload.output_tokens : 0,
                        .offset_ms = 1e3 * workload.piece_gap_seconds * (piece - 1)});
  }
}

}  // namespace

std::vector<Task> tasks_of(const Workload& workload, const TokenSource& text, std::uint64_t run,
                           bool keeps_prefixes) {
  std::vector<TaskRequest> requests;
  int context = 0;
  for (int round = 0; round < workload.rounds; ++round) {
    add_round(workload, round, context, workload.prewarmed && keeps_prefixes, requests);
    context = requests.back().prompt_tokens + workload.output_tokens;
  }
  const auto count =
      static_cast<std::uint64_t>(workload.poisson_arrivals ? 2 * workload.sequences : workload.sequences);
  RngSequence random(CounterRng(workload.seed, RngStage::arrivals, static_cast<std::uint32_t>(run)));
  std::vector<Task> tasks;
  double at_ms = 0.0;
  for (std::uint64_t i = 0; i < count; ++i) {
    tasks.push_back({.arrives_ms = at_ms,
                     .text = text.window(run * count + i, workload.context_tokens()),
                     .requests = requests});
    if (workload.arrivals_per_s > 0.0) at_ms -= 1e3 * std::log1p(-random.uniform()) / workload.arrivals_per_s;
  }
  return tasks;
}

}  // namespace moetune
