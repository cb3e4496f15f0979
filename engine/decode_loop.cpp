#include "engine/decode_loop.h"

#include <vector>

#include "engine/decoder.h"
#include "kernels/next_tokens.h"
#include "kernels/run.h"
#include "kernels/sample.h"

namespace moetune {

DecodeLoop::DecodeLoop(Rank& rank, int sequences, int steps)
    : rank_(&rank),
      steps_(steps),
      state_(rank.device, NumberType::i32, {2}),
      sampled_(rank.device, NumberType::i32, {sequences}),
      keys_(rank.device, NumberType::i32, {sequences}),
      forced_(rank.device, NumberType::i32, {steps, sequences}),
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
  const Tensor sampled = first_rows(sampled_, {rows});
  const Tensor keys = first_rows(keys_, {rows});
  const Tensor logits = decode_placed(rank, rows);
  moetune::run(rank.device, Sample{.logits = logits,
                                   .keys = keys,
                                   .ids = sampled,
                                   .temperature = sampling_.temperature,
                                   .seed = sampling_.seed});
  moetune::run(rank.device, NextTokens{.state = state_.view(),
                                       .sampled = sampled,
                                       .forced = first_rows(forced_, {steps_, rows}),
                                       .ids = first_rows(rank.scratch.ids, {rows}),
                                       .positions = first_rows(rank.scratch.positions, {rows}),
                                       .keys = keys,
                                       .log_ids = {log_ids_.data(), NumberType::i32, {steps_, rows}},
                                       .log_ns = reinterpret_cast<std::int64_t*>(log_ns_.data())});
}

Decoded DecodeLoop::run(const DecodeRequest& request, bool uses_graph) {
  Rank& rank = *rank_;
  const auto rows = static_cast<std::int64_t>(request.first.size());
  sampling_ = request.sampling;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> keys;
  for (const StepToken& token : request.first) {
    ids.push_back(token.id);
    sequences.push_back(token.sequence);
    positions.push_back(token.position);
    keys.push_back(token.position + 1);
  }
  place_step(rank, {ids, sequences, positions, {}});
  const auto upload = [&](std::span<const std::int32_t> values, const OwnedTensor& to) {
    copy_to_device(rank.device, values.data(), to.view().data(), static_cast<std::int64_t>(values.size_bytes()));
  };
  upload(keys, keys_);
  upload(std::vector<std::int32_t>{0, request.forced.empty() ? 0 : 1}, state_);
  upload(request.forced, forced_);
  moetune::run(rank.device, StartClock{reinterpret_cast<std::int64_t*>(log_ns_.data())});

  if (graph_sampling_ != sampling_) graphs_.clear();
  graph_sampling_ = sampling_;
  Graph& graph = graphs_[rows];
  for (int done = 0; done < request.steps; ++done) {
    // The first step of a run goes without a graph where there is none yet: scratch memory may have to grow.
    if (uses_graph && done > 0 && !graph.is_current()) graph = Graph(rank.device, [this, rows] { step(rows); });
    if (uses_graph && graph.is_current())
      graph.launch();
    else
      step(rows);
  }
  wait_for(rank.device);

  Decoded decoded;
  const auto* log_ids = reinterpret_cast<const std::int32_t*>(log_ids_.data());
  const auto* log_ns = reinterpret_cast<const std::int64_t*>(log_ns_.data());
  decoded.ids.assign(log_ids, log_ids + request.steps * rows);
  for (int done = 0; done < request.steps; ++done)
    decoded.step_seconds.push_back(1e-9 * static_cast<double>(log_ns[done + 1] - log_ns[done]));
  return decoded;
}

}  // namespace moetune
