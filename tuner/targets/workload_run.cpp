#include "tuner/targets/workload_run.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tuner/targets/arrivals.h"

namespace moetune {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The sequences of one run and how far each has come in its window.
class Run {
 public:
  Run(TimedEngine engine, const Workload& workload, const TokenSource& text, std::uint64_t number)
      : engine_(std::move(engine)), workload_(workload) {
    for (int sequence = 0; sequence < workload.sequences; ++sequence)
      windows_.push_back(text.window(
          number * static_cast<std::uint64_t>(workload.sequences) + static_cast<std::uint64_t>(sequence),
          workload.context_tokens()));
    position_.assign(windows_.size(), 0);
  }

  RunTimes operator()() {
    for (int round = 0; round < workload_.rounds; ++round) {
      // An answer's last token is not computed any further, but it stands before the next round's prompt.
      prompt(round == 0 ? workload_.prompt_tokens : 1 + workload_.round_prompt_tokens);
      decode(workload_.output_tokens - 1);
    }
    times_.seconds = 1e-3 * (engine_.now_ms() - paused_ms_);
    times_.output_tokens = std::int64_t{workload_.sequences} * workload_.rounds * workload_.output_tokens;
    return std::move(times_);
  }

 private:
  // Feeds the prompt of every sequence, one after the other, in the pieces in which it arrives; the clock of
  // the first token starts with the last piece, so a later sequence also waits for those before it. Where the
  // engine is done with a piece before the next one comes, the pause is added to the clock instead of waited
  // for; where it is not, the next piece waits.
  void prompt(int tokens) {
    const int pieces = std::clamp(workload_.typed_pieces, 1, tokens);
    const double began_ms = engine_.now_ms();
    for (int piece = 0; piece < pieces; ++piece) {
      const double arrived_ms = began_ms + 1e3 * workload_.piece_gap_seconds * piece;
      paused_ms_ += std::max(0.0, arrived_ms - engine_.now_ms());
      engine_.wait_until(arrived_ms);
      const int count = static_cast<int>(std::int64_t{tokens} * (piece + 1) / pieces -
                                         std::int64_t{tokens} * piece / pieces);
      const bool is_last = piece + 1 == pieces;
      for (int sequence = 0; sequence < workload_.sequences; ++sequence) {
        feed(sequence, count, is_last);
        if (is_last) times_.first_token_ms.push_back(engine_.now_ms() - arrived_ms);
      }
    }
  }

  // The first token of an answer comes from the prompt; the others take a step each.
  void decode(int steps) {
    if (steps < 1) return;
    step_.clear();
    for (int sequence = 0; sequence < workload_.sequences; ++sequence) step_.push_back(next_token(sequence));
    forced_.clear();
    for (int done = 0; done < steps; ++done)
      for (std::size_t sequence = 0; sequence < windows_.size(); ++sequence)
        forced_.push_back(windows_[sequence][static_cast<std::size_t>(position_[sequence] + done)]);
    double before_ms = engine_.now_ms();
    for (const double after_ms :
         engine_.decode({.first = step_, .steps = steps, .forced = forced_, .sampling = {}}))
      times_.token_ms.push_back(after_ms - std::exchange(before_ms, after_ms));
    for (std::int32_t& position : position_) position += steps - 1;
  }

  StepToken next_token(int sequence) {
    const auto index = static_cast<std::size_t>(sequence);
    const std::int32_t position = position_[index]++;
    return {.id = windows_[index][static_cast<std::size_t>(position)],
            .sequence = sequence,
            .position = position};
  }

  // Prompt tokens in steps as long as the engine takes.
  void feed(int sequence, int tokens, bool wants_answer) {
    while (tokens > 0) {
      const int count = std::min(tokens, engine_.engine().limits().step_tokens);
      step_.clear();
      for (int i = 0; i < count; ++i) {
        step_.push_back(next_token(sequence));
        step_.back().wants_logits = wants_answer && i + 1 == tokens;
      }
      engine_.forward(step_);
      tokens -= count;
    }
  }

  TimedEngine engine_;
  const Workload& workload_;
  std::vector<std::vector<std::int32_t>> windows_;
  std::vector<std::int32_t> position_;
  std::vector<StepToken> step_;
  std::vector<std::int32_t> forced_;
  double paused_ms_ = 0.0;
  RunTimes times_;
};

}  // namespace

double RunTimes::mean_token_ms() const { return mean(token_ms); }
double RunTimes::mean_first_token_ms() const { return mean(first_token_ms); }

EngineLimits limits_of(const Workload& workload, DeviceKind device) {
  const int longest_step = device == DeviceKind::cuda ? 2048 : 512;
  return {.sequences = workload.sequences,
          .context_tokens = workload.context_tokens(),
          .step_tokens = std::max({workload.sequences, std::min(workload.prompt_tokens, longest_step), 1})};
}

RunTimes run_workload(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price) {
  if (workload.poisson_arrivals && workload.arrivals_per_s > 0.0)
    return run_arrivals(engine, workload, text, run, price);
  return Run(TimedEngine(engine, price), workload, text, run)();
}

}  // namespace moetune
