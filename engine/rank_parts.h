// Makes what lies on a rank: all of it, or what other options need anew. Start at make_parts() and
// renew_parts().
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/facts/engine_options.h"
#include "engine/rank.h"

namespace moetune {

// What all ranks are made for. Refers to what its owner holds.
struct RankSetup {
  const std::shared_ptr<const Checkpoint>& checkpoint;
  const EngineOptions& options;
  const EngineLimits& limits;  // in effect (effective_limits())
};

// top_k_rule and reroute_margin as numbers. May take an engine of its own for a while
// (engine/router_profile.h), so it comes before anything that needs much memory.
RouteChanges route_changes(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options);

// A rank with its devices and its share of the model, nothing on it yet. Throws InputError for a device that
// is not there.
std::unique_ptr<Rank> make_rank(const RankSetup& setup, int index, const RouteChanges& changes);

// Everything on it; rank.group is set. Throws InputError for a checkpoint's faults, std::bad_alloc when
// memory does not suffice.
void make_parts(Rank& rank, const RankSetup& setup);

// Which parts do not serve other options or limits as they are.
struct PartsToRenew {
  bool cache = false;
  bool kv = false;
  bool scratch = false;
  bool router = false;
  bool threads = false;
};
// was_whole: false: an earlier change failed half-way, so every part that may have been on its way is made
// anew.
PartsToRenew parts_to_renew(const RankSetup& from, const RankSetup& to, bool was_whole);

// Can the weights stay? If not, only a new engine helps.
bool keeps_weights(const ModelSpec& spec, const EngineOptions& from, const EngineOptions& to);

// Throws as make_parts() does, and leaves a rank that only another call or its destruction helps.
void renew_parts(Rank& rank, const RankSetup& setup, const PartsToRenew& parts, const RouteChanges& changes);

}  // namespace moetune
