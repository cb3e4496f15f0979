#include "engine/decode_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/decoder.h"
#include "kernels/next_tokens.h"
#include "kernels/run.h"
#include "kernels/sample.h"
#include "kernels/spin.h"
#include "kernels/tool_ranges.h"

namespace moetune {
namespace {

constexpr int kInputs = 4;  // per row: id, sequence, position, key

// While it lives, the host's parts of a step go to `pieces`.
class Recording {
 public:
  Recording(Rank& rank, GraphPieces& pieces, bool cuts) : rank_(rank) {
    rank.pieces = &pieces;
    rank.cuts_pieces = cuts;
  }
  ~Recording() {
    rank_.pieces = nullptr;
    rank_.cuts_pieces = false;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Rank& rank_;
};

}  // namespace

DecodeLoop::DecodeLoop(Rank& rank, int sequences, int steps)
    : rank_(&rank),
      steps_(steps),
      state_(rank.device, NumberType::i32, {2}),
      sampled_(rank.device, NumberType::i32, {sequences}),
      keys_(rank.device, NumberType::i32, {sequences}),
      forced_(rank.device, NumberType::i32, {steps, sequences}),
      staged_(rank.device,
              (2 + (std::int64_t{steps} + kInputs) * sequences) * element_bytes(NumberType::i32)),
      log_ids_(rank.device, std::int64_t{steps} * sequences * element_bytes(NumberType::i32)),
      log_ns_(rank.device, (std::int64_t{steps} + 1) * static_cast<std::int64_t>(sizeof(std::int64_t))) {}

std::int64_t DecodeLoop::bytes_of(int sequences, int steps) {
  return (2 + std::int64_t{2} * sequences + std::int64_t{steps} * sequences) * element_bytes(NumberType::i32);
}

std::int64_t DecodeLoop::bytes() const {
  return state_.bytes() + sampled_.bytes() + keys_.bytes() + forced_.bytes();
}

void DecodeLoop::step(std::int64_t rows) {
  Rank& rank = *rank_;
  // On a GPU this runs when a graph is captured: steps are told apart by their marks.
  const StepScope recorded(shares_host_memory(rank.device) ? rank.recorder : nullptr, Phase::decode, rows);
  const Tensor sampled = first_rows(sampled_, {rows});
  const Tensor keys = first_rows(keys_, {rows});
  const Tensor logits = decode_placed(rank, rows);
  moetune::run(rank, Row::head,
               Sample{.logits = logits,
                      .keys = keys,
                      .ids = sampled,
                      .temperature = sampling_.temperature,
                      .seed = sampling_.seed});
  const MarkScope mark(rank.recorder, Mark::step_ends);
  moetune::run(rank, Row::other,
               NextTokens{.state = state_.view(),
                          .sampled = sampled,
                          .forced = first_rows(forced_, {steps_, rows}),
                          .ids = first_rows(rank.scratch.ids, {rows}),
                          .positions = first_rows(rank.scratch.positions, {rows}),
                          .keys = keys,
                          .log_ids = {log_ids_.data(), NumberType::i32, {steps_, rows}},
                          .log_ns = reinterpret_cast<std::int64_t*>(log_ns_.data())});
}

void DecodeLoop::place_inputs(const DecodeRequest& request) {
  Rank& rank = *rank_;
  auto* next = reinterpret_cast<std::int32_t*>(staged_.data());
  // staged_ is not written again before finish() has waited for these copies.
  const auto send = [&](const OwnedTensor& to, const auto& write) {
    std::int32_t* const begin = next;
    write();
    copy_to_device(rank.device, begin, to.view().data(), (next - begin) * element_bytes(NumberType::i32));
  };
  const auto send_each = [&](const OwnedTensor& to, const auto& value) {
    send(to, [&] {
      for (const StepToken& token : request.first) *next++ = value(token);
    });
  };
  send_each(rank.scratch.ids, [](const StepToken& token) { return token.id; });
  send_each(rank.scratch.sequences, [](const StepToken& token) { return token.sequence; });
  send_each(rank.scratch.positions, [](const StepToken& token) { return token.position; });
  send_each(keys_, [](const StepToken& token) { return token.position + 1; });
  send(state_, [&] {
    *next++ = 0;
    *next++ = request.forced.empty() ? 0 : 1;
  });
  if (!request.forced.empty()) send(forced_, [&] { next = std::ranges::copy(request.forced, next).out; });
}

// may_record: not a run's first step, in which scratch memory may have to grow.
void DecodeLoop::launch_step(std::int64_t rows, Launch launch, bool may_record) {
  Rank& rank = *rank_;
  if (launch == Launch::graph) {
    Graph& graph = graphs_[rows];
    if (may_record && !graph.is_current()) {
      const ToolRange range("moetune: capture");
      graph = Graph(rank.device, [this, rows] { step(rows); });
    }
    if (graph.is_current()) return graph.launch();
  } else if (launch == Launch::pieces || launch == Launch::growing_pieces) {
    GraphPieces& pieces = pieces_[rows];
    if (pieces.is_current()) return pieces.launch();
    const ToolRange range(may_record ? "moetune: capture" : "moetune: first step");
    if (may_record)
      return pieces.record(rank.device, [this, rows, &pieces, cuts = launch == Launch::growing_pieces] {
        const Recording recording(*rank_, pieces, cuts);
        step(rows);
      });
  }
  step(rows);
}

// A profiler spends a microsecond on every kernel of a graph that it records before the first of them may
// run. Where the device waits for that it waits for a few kernels only, and the others are launched
// meanwhile.
DecodeLoop::Launch DecodeLoop::launch_of(Launch asked) const {
  const bool is_labelled = rank_->recorder != nullptr && rank_->recorder->labels() != nullptr;
  const bool is_awaited = rank_->injected.host_stall_ns > 0;
  return asked == Launch::graph && is_labelled && is_awaited ? Launch::growing_pieces : asked;
}

void DecodeLoop::start(const DecodeRequest& request, Launch asked) {
  Rank& rank = *rank_;
  const Launch launch = launch_of(asked);
  const auto rows = static_cast<std::int64_t>(request.first.size());
  sampling_ = request.sampling;
  started_rows_ = rows;
  started_steps_ = request.steps;
  // The host's parts of recorded pieces look at it, and the last step that was not launched from pieces may
  // have been a prompt's.
  rank.is_one_each = true;
  place_inputs(request);
  {
    StepRecorder* const recorder = shares_host_memory(rank.device) ? nullptr : rank.recorder;
    const MarkScope mark(recorder, Mark::run_begins);
    const OpScope scope(recorder, Activity::compute);
    moetune::run(rank.device, StartClock{reinterpret_cast<std::int64_t*>(log_ns_.data())});
  }

  if (graph_sampling_ != sampling_) forget_graphs();
  graph_sampling_ = sampling_;
  for (int done = 0; done < request.steps; ++done) {
    const ToolRange range("moetune: launch of step", done);
    launch_step(rows, launch, done > 0);
    if (rank.injected.host_stall_ns <= 0) continue;
    wait_for(rank.device);
    moetune::run(rank.host, Spin{.ns = rank.injected.host_stall_ns});
  }
}

Decoded DecodeLoop::finish() {
  const ToolRange range("moetune: wait for the steps");
  wait_for(rank_->device);
  const std::int64_t rows = std::exchange(started_rows_, 0);
  const int steps = std::exchange(started_steps_, 0);
  Decoded decoded;
  const auto* log_ids = reinterpret_cast<const std::int32_t*>(log_ids_.data());
  const auto* log_ns = reinterpret_cast<const std::int64_t*>(log_ns_.data());
  decoded.ids.assign(log_ids, log_ids + steps * rows);
  for (int done = 0; done < steps; ++done)
    decoded.step_seconds.push_back(1e-9 * static_cast<double>(log_ns[done + 1] - log_ns[done]));
  if (rank_->recorder != nullptr && !shares_host_memory(rank_->device)) {
    std::vector<std::int64_t> lengths_ns;
    for (int done = 0; done < steps; ++done) lengths_ns.push_back(log_ns[done + 1] - log_ns[done]);
    rank_->recorder->add_decoded(rows, lengths_ns);
  }
  return decoded;
}

}  // namespace moetune
