#include "engine/prefetcher.h"

#include <algorithm>

#include "engine/rank.h"
#include "engine/router.h"

namespace moetune {
namespace {

// The next layer of the model that routes; -1: none.
int next_routing_layer(const ModelSpec& spec, int layer) {
  for (int next = layer + 1; next < spec.layers; ++next)
    if (spec.moe_layers[static_cast<std::size_t>(next)]) return next;
  return -1;
}

bool counts(Prefetch kind) { return kind == Prefetch::markov || kind == Prefetch::table; }

}  // namespace

GateAhead::GateAhead(Device& device, const ModelSpec& spec, std::int64_t tokens)
    : normed(device, NumberType::f32, {tokens, spec.hidden}),
      logits(device, NumberType::f32, {tokens, spec.experts}),
      ids(device, NumberType::i32, {tokens, spec.experts_per_token}),
      weights(device, NumberType::f32, {tokens, spec.experts_per_token}) {}

std::int64_t GateAhead::bytes_of(const ModelSpec& spec, std::int64_t tokens) {
  return tokens * (spec.hidden + spec.experts + 2 * spec.experts_per_token) * element_bytes(NumberType::f32);
}

void ask_gate(Rank& rank, GateAhead& gate, int layer, std::int64_t tokens) {
  const RouterTensors to{.normed = first_rows(gate.normed, {tokens, rank.spec->hidden}),
                         .logits = first_rows(gate.logits, {tokens, rank.spec->experts}),
                         .ids = first_rows(gate.ids, {tokens, rank.top_k}),
                         .weights = first_rows(gate.weights, {tokens, rank.top_k})};
  run_router_ahead(rank, rank.weights.layers[static_cast<std::size_t>(layer)], layer, to);
}

std::span<const std::int32_t> answer_of_gate(Rank& rank, GateAhead& gate, std::int64_t tokens) {
  rank.guessed_ids.resize(static_cast<std::size_t>(tokens * rank.top_k));
  copy_to_host(rank.device, gate.ids.view().data(), rank.guessed_ids.data(),
               std::ssize(rank.guessed_ids) * element_bytes(NumberType::i32));
  return rank.guessed_ids;
}

Prefetcher::Prefetcher(Device& device, const ModelSpec& spec, Prefetch kind, const For& steps)
    : kind_(kind),
      predictor_(kind, spec.moe_layer_count(), spec.experts),
      bytes_(bytes_of(spec, kind, steps)) {
  if (kind == Prefetch::next_gate) gate_.emplace_back(device, spec, steps.sequences);
  if (steps.on_device && counts(kind))
    on_device_ = std::make_unique<DeviceGuesses>(device, spec, kind, steps.step_tokens, steps.sequences);
}

std::int64_t Prefetcher::bytes_of(const ModelSpec& spec, Prefetch kind, const For& steps) {
  if (kind == Prefetch::next_gate) return GateAhead::bytes_of(spec, steps.sequences);
  return steps.on_device && counts(kind)
             ? DeviceGuesses::bytes_of(spec, kind, steps.step_tokens, steps.sequences)
             : 0;
}

void Prefetcher::forget() {
  predictor_.forget();
  if (on_device_) on_device_->forget();
  before_.clear();
}

void Prefetcher::fetch(Rank& rank, int moe_layer, std::span<const std::int32_t> experts) {
  rank.cache->fetch_ahead(moe_layer, experts);
}

void Prefetcher::begin_step(Rank& rank, std::int64_t tokens) {
  if (!rank.cache->looks_up_on_device()) {
    on_host(rank, [&rank, tokens] { rank.prefetcher->begin_step_on_host(rank, tokens); });
  } else if (kind_ == Prefetch::repeat && rank.is_one_each) {
    rank.cache->fetch_ahead_on_device(0, {}, true);
  } else if (on_device_ && rank.is_one_each) {
    const Tensor guesses = on_device_->before_step(first_rows(rank.scratch.ids, {tokens}), rank.top_k);
    if (!guesses.empty()) rank.cache->fetch_ahead_on_device(0, guesses, true);
  }
}

void Prefetcher::begin_step_on_host(Rank& rank, std::int64_t tokens) {
  before_.clear();
  if (kind_ == Prefetch::table) {
    token_ids_.resize(static_cast<std::size_t>(tokens));
    copy_to_host(rank.device, rank.scratch.ids.view().data(), token_ids_.data(),
                 tokens * element_bytes(NumberType::i32));
  }
  rank.cache->begin_step();
  if (!rank.is_one_each) return;
  const LayerChoice nothing{.ids = {}, .token_ids = token_ids_, .k = rank.top_k};
  fetch(rank, 0, predictor_.predict(0, nothing, rank.cache->fair_share(0)));
}

void Prefetcher::ask(Rank& rank, int layer, std::int64_t tokens) {
  const int next = next_routing_layer(*rank.spec, layer);
  if (kind_ == Prefetch::next_gate && next >= 0 && rank.is_one_each)
    ask_gate(rank, gate_.front(), next, tokens);
}

void Prefetcher::after_lookup(Rank& rank, int layer, int moe_layer, std::int64_t tokens) {
  Tensor guesses;  // empty: what the layer asked for last
  if (kind_ == Prefetch::next_gate) guesses = first_rows(gate_.front().ids, {tokens, rank.top_k});
  if (on_device_)  // learns from prompts and from the last layer, too
    guesses = on_device_->after_choice(moe_layer, first_rows(rank.scratch.expert_ids, {tokens, rank.top_k}),
                                       first_rows(rank.scratch.ids, {tokens}), rank.is_one_each);
  if (next_routing_layer(*rank.spec, layer) < 0 || !rank.is_one_each) return;
  rank.cache->fetch_ahead_on_device(moe_layer + 1, guesses, false);
}

void Prefetcher::after_choice(Rank& rank, int layer, int moe_layer, std::int64_t tokens) {
  const LayerChoice choice{.ids = rank.chosen_ids, .token_ids = token_ids_, .k = rank.top_k};
  predictor_.learn(moe_layer, choice, {.ids = before_, .token_ids = token_ids_, .k = rank.top_k});
  before_ = rank.chosen_ids;
  const int next = next_routing_layer(*rank.spec, layer);
  if (next < 0 || !rank.is_one_each) return;
  const std::size_t most = rank.cache->fair_share(moe_layer + 1);
  if (kind_ == Prefetch::next_gate)
    fetch(rank, moe_layer + 1, by_rank(answer_of_gate(rank, gate_.front(), tokens), rank.top_k, most));
  else
    fetch(rank, moe_layer + 1, predictor_.predict(moe_layer + 1, choice, most));
}

}  // namespace moetune
