// One tensor-parallel rank: a device and everything that lies on it. With one rank it is the whole engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/expert_cache.h"
#include "engine/expert_store.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/kv_cache.h"
#include "engine/scratch.h"
#include "engine/shard.h"
#include "engine/sync_tax/injection.h"
#include "engine/sync_tax/step_recorder.h"
#include "engine/weights.h"
#include "kernels/collective.h"
#include "kernels/device.h"
#include "kernels/graph_pieces.h"
#include "kernels/run.h"

namespace moetune {

class DecodeLoop;   // engine/decode_loop.h
class HostExperts;  // engine/host_experts.h
class HostRouter;   // engine/host_router.h
class Prefetcher;   // engine/prefetcher.h
struct GateAhead;

// What the options make of a router's choice (kernels/change_route.h).
struct RouteChanges {
  double threshold = 0.0;  // top_k_rule=threshold:t
  std::vector<int>
      layer_experts;  // top_k_rule=per_layer: experts of every layer that routes; empty: all top_k
  double reroute_margin = 0.0;
};

struct Rank {
  const ModelSpec* spec = nullptr;
  Shard shard;
  LocalGroup* group = nullptr;  // null with one rank
  Cpu host;                     // loads, packs and reads experts
  Device device;                // computes; the same threads as host where it is a CPU
  Weights weights;
  KvCache kv;
  Scratch scratch;
  std::unique_ptr<ExpertStore> store;  // null without routed layers
  std::unique_ptr<ExpertCache> cache;
  std::unique_ptr<HostExperts> host_experts;  // null where the host computes none
  std::unique_ptr<HostRouter> host_router;    // null where the device routes
  int top_k = 0;                              // experts per token in effect
  RouteChanges changes;
  bool is_one_each = false;              // of the running step: no two tokens of one sequence, as in decoding
  int runs = 0;                          // of the running step, as Attention's; 0: not known
  Engine::RoutingObserver observer;      // rank 0 only
  Engine::RoutingSource routing_source;  // the same on all ranks
  Engine::GateObserver gate_observer;    // rank 0 only
  std::unique_ptr<GateAhead> gate_ahead;   // for it
  std::unique_ptr<Prefetcher> prefetcher;  // null: prefetch none, or nothing to fetch
  std::vector<std::int32_t> chosen_ids;    // of the running layer, on the host
  std::vector<float> chosen_weights;       // the same; only for the observer
  std::vector<std::int32_t> asked_ids;     // chosen_ids without the dropped ones
  std::vector<std::int32_t> guessed_ids;   // of a later layer
  double communication_seconds = 0.0;
  StepRecorder* recorder = nullptr;  // rank 0 only, and only while somebody records
  std::int64_t labelled_by = 0;      // number of the TraceLabels that know the graphs' nodes; 0: none
  Injection injected;
  std::unique_ptr<DecodeLoop> decode_loop;  // null with several ranks
  GraphPieces* pieces = nullptr;            // while a step is recorded
  bool cuts_pieces = false;                 // then: into pieces that grow (DecodeLoop::launch_of())

  Rank(const Cpu& cpu, Device on);
  ~Rank();

  // Where nothing is to be decided or shown on the host, the router's choice stays on the device: waiting for
  // it would cost 13 us and more per layer (H200, measured), and a whole step could not be one graph.
  bool host_must_know() const;
};

// The host's part in the middle of a step: done now, and again whenever a step that is being recorded is
// launched. What it refers to must live as long as the rank.
void on_host(Rank& rank, const std::function<void()>& part);

// An op of the model, recorded where somebody records.
template <class Op>
void run(Rank& rank, Row row, const Op& op) {
  const OpScope scope(rank.recorder, Activity::compute, row);
  run(rank.device, op);
}

// Sums a tensor over the ranks, in place; nothing to do with one rank.
void all_reduce(Rank& rank, const Tensor& x);

// Where half a layer adds its result, (tokens, hidden): with one rank the residual stream itself, else zeros
// that end_half_layer() sums over the ranks and adds to it.
Tensor begin_half_layer(Rank& rank, std::int64_t tokens);
void end_half_layer(Rank& rank, std::int64_t tokens);

}  // namespace moetune
