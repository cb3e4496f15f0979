#include "engine/decoder.h"

#include "engine/attention_layer.h"
#include "engine/feed_forward.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"
#include "kernels/run.h"

namespace moetune {
namespace {

void upload(Rank& rank, std::span<const std::int32_t> values, const OwnedTensor& to) {
  copy_to_device(rank.device, values.data(), to.view().data(),
                 static_cast<std::int64_t>(values.size_bytes()));
}

void norm(Rank& rank, const Tensor& x, const Tensor& weight, const Tensor& y) {
  run(rank.device, RmsNorm{.x = x, .weight = weight, .y = y, .eps = static_cast<float>(rank.spec->rms_eps)});
}

// The output of half a layer joins the residual stream, once summed over the ranks.
void join(Rank& rank, const Tensor& residual) {
  const Tensor output = first_rows(rank.scratch.output, {residual.dim(0), residual.dim(1)});
  all_reduce(rank, output);
  run(rank.device, Add{.x = output, .y = residual});
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
  run(rank.device, Embed{.table = table, .ids = first_rows(rank.scratch.wanted, {count}), .y = rows});
  return rows;
}

void head(Rank& rank, const Tensor& residual, std::span<const std::int32_t> wanted, float* logits) {
  const ModelSpec& spec = *rank.spec;
  const auto count = static_cast<std::int64_t>(wanted.size());
  const Slice vocabulary = rank.shard.vocabulary(spec);
  const Tensor rows = wanted_rows(rank, residual, wanted);
  const Tensor normed = first_rows(rank.scratch.wanted_rows, {count, spec.hidden});
  const Tensor part = first_rows(rank.scratch.logits, {count, vocabulary.count});
  norm(rank, rows, rank.weights.final_norm, normed);
  run(rank.device, Gemm{.x = normed, .w = rank.weights.head, .y = part, .bias = {}});
  const std::int64_t row_bytes = vocabulary.count * element_bytes(NumberType::f32);
  if (vocabulary.count == spec.vocabulary)
    return copy_to_host(rank.device, part.data(), logits, count * row_bytes);
  for (std::int64_t row = 0; row < count; ++row)
    copy_to_host(rank.device, part.rows(row, 1).data(), logits + row * spec.vocabulary + vocabulary.begin,
                 row_bytes);
}

}  // namespace

void decode_step(Rank& rank, const StepInputs& step, float* logits) {
  const ModelSpec& spec = *rank.spec;
  const auto tokens = static_cast<std::int64_t>(step.ids.size());
  upload(rank, step.ids, rank.scratch.ids);
  upload(rank, step.sequences, rank.scratch.sequences);
  upload(rank, step.positions, rank.scratch.positions);
  const Tensor residual = first_rows(rank.scratch.residual, {tokens, spec.hidden});
  const Tensor normed = first_rows(rank.scratch.normed, {tokens, spec.hidden});
  run(rank.device,
      Embed{.table = rank.weights.embedding, .ids = first_rows(rank.scratch.ids, {tokens}), .y = residual});

  int moe_layer = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const LayerWeights& weights = rank.weights.layers[static_cast<std::size_t>(layer)];
    norm(rank, residual, weights.input_norm, normed);
    attend(rank, weights.attention, layer, tokens);
    join(rank, residual);
    norm(rank, residual, weights.post_attention_norm, normed);
    if (spec.moe_layers[static_cast<std::size_t>(layer)])
      mixture_of_experts(rank, weights, layer, moe_layer++, tokens);
    else
      feed_forward(rank, weights.dense, tokens);
    join(rank, residual);
  }
  if (!step.wanted.empty()) head(rank, residual, step.wanted, logits);
}

}  // namespace moetune
