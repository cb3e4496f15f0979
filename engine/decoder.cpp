#include "engine/decoder.h"

#include <algorithm>
#include <vector>

#include "engine/attention_layer.h"
#include "engine/feed_forward.h"
#include "engine/prefetcher.h"
#include "kernels/embed.h"
#include "kernels/norm_gemm.h"
#include "kernels/run.h"
#include "kernels/spin.h"
#include "kernels/tool_ranges.h"

namespace moetune {
namespace {

void upload(Rank& rank, std::span<const std::int32_t> values, const OwnedTensor& to) {
  copy_to_device(rank.device, values.data(), to.view().data(),
                 static_cast<std::int64_t>(values.size_bytes()));
}

// Neighbouring tokens of one sequence are one run.
int runs_of(std::span<const std::int32_t> sequences) {
  int runs = sequences.empty() ? 0 : 1;
  for (std::size_t i = 1; i < sequences.size(); ++i) runs += sequences[i] != sequences[i - 1] ? 1 : 0;
  return runs;
}

// Rows of the residual that want logits: a view where they lie together, which is the usual case, else a
// copy.
Tensor wanted_rows(Rank& rank, const Tensor& residual, std::span<const std::int32_t> wanted) {
  const auto count = static_cast<std::int64_t>(wanted.size());
  if (wanted.back() - wanted.front() + 1 == count) return residual.rows(wanted.front(), count);
  upload(rank, wanted, rank.scratch.wanted);
  // A row gather is an embedding whose table is the residual stream; its rows are not padded.
  WeightMatrix table{residual.data(), MatrixLayout::of(NumberType::f32, residual.dim(0), residual.dim(1))};
  table.layout.row_bytes = residual.dim(1) * element_bytes(NumberType::f32);
  const Tensor rows = first_rows(rank.scratch.wanted_rows, {count, residual.dim(1)});
  run(rank, Row::head, Embed{.table = table, .ids = first_rows(rank.scratch.wanted, {count}), .y = rows});
  return rows;
}

// Behind a layer they would keep the op that follows from fetching its weights early, and in front of all
// they would give those of the first layers time to: what follows here has no weights.
void empty_ops(Rank& rank) {
  for (int i = 0; i < rank.injected.empty_ops; ++i) {
    const OpScope scope(rank.recorder, Activity::nothing);
    run(rank.device, Spin{.ns = 0});
  }
}

// Final norm and this rank's part of the vocabulary, for rows of the residual stream: (rows, vocabulary
// part).
Tensor head(Rank& rank, const Tensor& rows) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t count = rows.dim(0);
  const Tensor part = first_rows(rank.scratch.logits, {count, rank.shard.vocabulary(spec).count});
  run(rank, Row::head,
      NormGemm{.x = rows,
               .norm = rank.weights.final_norm,
               .normed = first_rows(rank.scratch.wanted_rows, {count, spec.hidden}),
               .eps = static_cast<float>(spec.rms_eps),
               .parts = {{{.w = rank.weights.head, .y = part}, {}, {}}}});
  empty_ops(rank);
  return part;
}

void logits_to_host(Rank& rank, const Tensor& part, float* logits) {
  const OpScope scope(rank.recorder, Activity::compute, Row::head);
  const ModelSpec& spec = *rank.spec;
  const Slice vocabulary = rank.shard.vocabulary(spec);
  const std::int64_t row_bytes = vocabulary.count * element_bytes(NumberType::f32);
  if (vocabulary.count == spec.vocabulary)
    return copy_to_host(rank.device, part.data(), logits, part.dim(0) * row_bytes);
  for (std::int64_t row = 0; row < part.dim(0); ++row)
    copy_to_host(rank.device, part.rows(row, 1).data(), logits + row * spec.vocabulary + vocabulary.begin,
                 row_bytes);
}

// 1, 3, 12 and 48 layers, then the rest: each is launched while the one before runs.
bool begins_piece(int layer) {
  int first = 1;
  while (first < layer) first *= 4;
  return first == layer;
}

// Embedding and layers, from ids, sequences and positions in scratch; returns the residual stream (tokens,
// hidden).
Tensor layers(Rank& rank, std::int64_t tokens, bool is_one_each) {
  const ModelSpec& spec = *rank.spec;
  const Tensor residual = first_rows(rank.scratch.residual, {tokens, spec.hidden});
  run(rank, Row::other,
      Embed{.table = rank.weights.embedding, .ids = first_rows(rank.scratch.ids, {tokens}), .y = residual});
  rank.is_one_each = is_one_each;
  if (rank.prefetcher) rank.prefetcher->begin_step(rank, tokens);
  int moe_layer = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const LayerWeights& weights = rank.weights.layers[static_cast<std::size_t>(layer)];
    if (rank.cuts_pieces && begins_piece(layer)) rank.pieces->cut();
    const ToolRange range("moetune: layer", layer);
    if (rank.recorder != nullptr) rank.recorder->enter_layer(layer);
    attend(rank, weights, layer, tokens, is_one_each);
    end_half_layer(rank, tokens);
    if (spec.moe_layers[static_cast<std::size_t>(layer)])
      mixture_of_experts(rank, weights, layer, moe_layer++, tokens);
    else
      feed_forward(rank, weights, tokens);
    end_half_layer(rank, tokens);
  }
  if (rank.recorder != nullptr) rank.recorder->enter_layer(-1);
  return residual;
}

bool is_one_each(std::span<const std::int32_t> sequences) {
  std::vector<std::int32_t> sorted(sequences.begin(), sequences.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

}  // namespace

void place_step(Rank& rank, const StepInputs& step) {
  upload(rank, step.ids, rank.scratch.ids);
  upload(rank, step.sequences, rank.scratch.sequences);
  upload(rank, step.positions, rank.scratch.positions);
}

void decode_step(Rank& rank, const StepInputs& step, float* logits) {
  place_step(rank, step);
  rank.runs = runs_of(step.sequences);
  const Tensor residual =
      layers(rank, static_cast<std::int64_t>(step.ids.size()), is_one_each(step.sequences));
  if (!step.wanted.empty())
    logits_to_host(rank, head(rank, wanted_rows(rank, residual, step.wanted)), logits);
}

Tensor decode_placed(Rank& rank, std::int64_t tokens) {
  rank.runs = static_cast<int>(tokens);
  return head(rank, layers(rank, tokens, true));
}

}  // namespace moetune
