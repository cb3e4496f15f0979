// One tensor-parallel rank: a device and everything that lies on it. With one rank it is the whole engine.
#pragma once

#include <cstdint>
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
#include "engine/weights.h"
#include "kernels/collective.h"
#include "kernels/device.h"

namespace moetune {

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
  int top_k = 0;                         // experts per token in effect
  Engine::RoutingObserver observer;      // rank 0 only
  Engine::RoutingSource routing_source;  // the same on all ranks
  std::vector<std::int32_t> chosen_ids;  // of the running layer, on the host
  std::vector<float> chosen_weights;     // the same; only for the observer
  double communication_seconds = 0.0;

  Rank(const Cpu& cpu, Device on) : host(cpu), device(std::move(on)) {}
};

// Sums a tensor over the ranks, in place; nothing to do with one rank.
void all_reduce(Rank& rank, const Tensor& x);

}  // namespace moetune
