#include "engine/expert_waves.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "engine/host_experts.h"
#include "engine/prefetcher.h"
#include "kernels/buffer.h"
#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/run.h"
#include "kernels/tool_ranges.h"

namespace moetune {
namespace {

template <class T>
void read_back(Rank& rank, const Tensor& from, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(from.elements()));
  copy_to_host(rank.device, from.data(), to.data(), from.elements() * element_bytes(from.type()));
}

void show_to_observer(Rank& rank, const Chosen& chosen, int layer) {
  if (!rank.observer) return;
  read_back(rank, chosen.weights, rank.chosen_weights);
  rank.observer(layer, rank.chosen_ids, rank.chosen_weights, static_cast<int>(chosen.ids.dim(0)), rank.top_k);
}

// What is to come, for those who fetch or watch; the running layer's experts are in place.
void look_ahead(Rank& rank, int layer, int moe_layer, std::int64_t tokens) {
  if (!rank.prefetcher && !rank.gate_observer) return;
  const OpScope scope(rank.recorder, Activity::compute, Row::router);
  if (rank.prefetcher) rank.prefetcher->after_choice(rank, layer, moe_layer, tokens);
  const auto& routes = rank.spec->moe_layers;
  const auto next = std::find(routes.begin() + layer + 1, routes.end(), true);
  if (!rank.gate_observer || next == routes.end()) return;
  if (!rank.gate_ahead || rank.gate_ahead->tokens() < tokens)
    rank.gate_ahead = std::make_unique<GateAhead>(rank.device, *rank.spec, tokens);
  const int foreseen = static_cast<int>(next - routes.begin());
  ask_gate(rank, *rank.gate_ahead, foreseen, tokens);
  rank.gate_observer(foreseen, answer_of_gate(rank, *rank.gate_ahead, tokens), static_cast<int>(tokens),
                     rank.top_k);
}

ExpertFfn ffn_of(const Rank& rank, const Tensor& x, const Chosen& chosen) {
  return {.x = x,
          .ids = chosen.ids,
          .slot_of_expert = rank.cache->wave_table(),
          .slots = rank.cache->slots(),
          .layout = rank.cache->layout(),
          .rows = first_rows(rank.scratch.expert_rows, {x.dim(0), rank.top_k, x.dim(1)})};
}

// Does anybody ask which product runs: an account of a token's time, or a profiler that is attached?
bool is_watched(const Rank& rank) { return rank.recorder != nullptr || tool_watches(); }

// The experts of the running wave, whose two products a CPU tells apart.
void run_wave(Rank& rank, const Tensor& x, const Chosen& chosen) {
  OpScope scope(rank.recorder, Activity::compute, Row::gate_up);
  const std::function<void()> gate_up_is_done = [&] { scope.go_on_with(Row::down_combine); };
  ExpertFfn ffn = ffn_of(rank, x, chosen);
  if (is_watched(rank)) ffn.after_gate_up = &gate_up_is_done;
  run(rank.device, ffn);
}

FeedForward dense_of(Rank& rank, const FeedForwardWeights& weights, const Tensor& x, const Tensor& y) {
  const GatedRows between = gated_rows(rank.scratch, x.dim(0), weights.gate.layout.out);
  return {.x = x,
          .gate = weights.gate,
          .up = weights.up,
          .down = weights.down,
          .gated = between.gated,
          .upped = between.upped,
          .y = y};
}

// By the same kernels. Its rows are scratch, and with one rank the tensor that other ranks would add up is
// nobody's.
void read_once_more(Rank& rank, const ExpertFfn& ffn, const Chosen& chosen, const Tensor& y) {
  ExpertFfn once_more = ffn;
  once_more.after_gate_up = nullptr;
  if (rank.group != nullptr) return run(rank.device, once_more);
  const Tensor nowhere = first_rows(rank.scratch.output, {y.dim(0), y.dim(1)});
  run(rank.device, RoutedFfn{.ffn = once_more, .weights = chosen.weights, .y = nowhere});
}

// The device looks up and fetches: what that takes is loading, whether something was missing or not. The next
// layer's guesses go beside the last wave.
void look_up_on_device(Rank& rank, const Tensor& x, const Chosen& chosen, int layer, int moe_layer, int wave,
                       int waves) {
  {
    const OpScope scope(rank.recorder, Activity::expert_copy);
    if (wave == 0)
      rank.cache->first_device_wave(moe_layer, chosen.ids);
    else
      rank.cache->next_device_wave();
  }
  if (rank.prefetcher && wave == waves - 1) rank.prefetcher->after_lookup(rank, layer, moe_layer, x.dim(0));
}

void run_waves_of_device(Rank& rank, const Tensor& x, const Chosen& chosen, int layer, int moe_layer,
                         int waves) {
  for (int wave = 0; wave < waves; ++wave) {
    look_up_on_device(rank, x, chosen, layer, moe_layer, wave, waves);
    run_wave(rank, x, chosen);
  }
}

// The first wave is there: prepare_experts_on_host(). Recorded, a step has as many as it may ever need.
void run_waves_of_host(Rank& rank, const Tensor& x, const Chosen& chosen, int layer, int moe_layer,
                       int waves) {
  run_wave(rank, x, chosen);
  for (int wave = 1; wave < waves && (rank.pieces != nullptr || !rank.cache->is_last_wave()); ++wave) {
    on_host(rank, [&rank, layer, moe_layer, tokens = x.dim(0)] {
      const bool was_last = rank.cache->is_last_wave();
      {
        const OpScope scope(rank.recorder, Activity::host_wait);
        rank.cache->next_wave();
      }
      if (!was_last && rank.cache->is_last_wave()) look_ahead(rank, layer, moe_layer, tokens);
    });
    run_wave(rank, x, chosen);
  }
}

void run_here_and_outside(Rank& rank, const Tensor& x, const Chosen& chosen, int moe_layer) {
  run_wave(rank, x, chosen);
  on_host(rank, [&rank, moe_layer, rows = ffn_of(rank, x, chosen).rows] {
    rank.cache->promote_outside();
    const HostScope scope(rank.recorder, Activity::compute, Row::gate_up);
    rank.host_experts->compute(rank.device, rank.host, moe_layer, rank.chosen_ids, rank.cache->outside(),
                               rows);
  });
}

}  // namespace

void prepare_experts_on_host(Rank& rank, const Chosen& chosen, const Tensor& x, int layer, int moe_layer) {
  ExpertCache& cache = *rank.cache;
  if (!rank.host_router) {  // else it is the host's own choice
    const OpScope scope(rank.recorder, Activity::host_wait);
    read_back(rank, chosen.ids, rank.chosen_ids);
  }
  {
    const OpScope scope(rank.recorder, Activity::host_wait);
    show_to_observer(rank, chosen, layer);
    if (cache.looks_up_on_device()) return;
    std::vector<std::int32_t>& asked = rank.asked_ids;  // chosen, without those that were dropped
    asked = rank.chosen_ids;
    std::erase(asked, -1);
    cache.begin_layer(moe_layer, asked, cache.waves_at_most(moe_layer, x.dim(0), rank.top_k));
    cache.next_wave();
  }
  if (cache.is_last_wave()) look_ahead(rank, layer, moe_layer, x.dim(0));
  if (!cache.outside().empty()) rank.host_experts->take_inputs(rank.device, x);
}

void run_all_at_once(Rank& rank, const Tensor& x, const Chosen& chosen, const FeedForwardWeights& shared,
                     const Tensor& y) {
  OpScope scope(rank.recorder, Activity::compute, Row::gate_up);
  const std::function<void()> gate_up_is_done = [&] { scope.go_on_with(Row::down_combine); };
  const std::function<void()> shared_begins = [&] { scope.go_on_with(Row::shared); };
  ExpertFfn ffn = ffn_of(rank, x, chosen);
  for (int more = 1; more < rank.injected.expert_reads; ++more) read_once_more(rank, ffn, chosen, y);
  if (is_watched(rank)) ffn.after_gate_up = &gate_up_is_done;
  const RoutedFfn routed{.ffn = ffn, .weights = chosen.weights, .y = y};
  if (shared.gate.empty()) return run(rank.device, routed);
  run(rank.device, MoeFfn{.routed = routed,
                          .shared = dense_of(rank, shared, x, y),
                          .before_shared = is_watched(rank) ? &shared_begins : nullptr});
}

void run_dense(Rank& rank, const FeedForwardWeights& weights, Row row, const Tensor& x, const Tensor& y) {
  run(rank, row, dense_of(rank, weights, x, y));
}

// With the layer's shared ones, if it has any. Where one wave is enough whatever was routed, the ops are
// those of the resident model, whose kernels for one token sum all of them up as they go.
void run_experts(Rank& rank, const FeedForwardWeights& shared, const Tensor& x, const Chosen& chosen,
                 int layer, int moe_layer, const Tensor& y) {
  const bool device_decides = rank.cache->looks_up_on_device();
  if (!device_decides && !rank.host_must_know()) {
    rank.cache->begin_resident_layer(moe_layer);
    return run_all_at_once(rank, x, chosen, shared, y);
  }
  const int waves = rank.cache->waves_at_most(moe_layer, x.dim(0), rank.top_k);
  if (rank.cache->leaves_some_outside()) {
    run_here_and_outside(rank, x, chosen, moe_layer);
  } else if (waves == 1) {
    if (device_decides) look_up_on_device(rank, x, chosen, layer, moe_layer, 0, 1);
    return run_all_at_once(rank, x, chosen, shared, y);
  } else if (device_decides) {
    run_waves_of_device(rank, x, chosen, layer, moe_layer, waves);
  } else {
    run_waves_of_host(rank, x, chosen, layer, moe_layer, waves);
  }
  run(rank, Row::down_combine,
      Combine{.rows = ffn_of(rank, x, chosen).rows, .weights = chosen.weights, .y = y});
  if (!shared.gate.empty()) run_dense(rank, shared, Row::shared, x, y);
}

}  // namespace moetune
