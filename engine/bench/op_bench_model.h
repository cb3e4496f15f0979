// Which model an op bench loads: no layer, head or cache that none of its ops needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/bench/op_bench.h"

namespace moetune {

inline constexpr std::int64_t kFillTokens = 256;  // of a step that fills the KV cache

bool reads_cache(const std::string& op);
bool asks_for(const std::vector<std::string>& ops, const std::string& op);

EngineLimits limits_of(const OpBenchSetup& setup);

// A generated model with as many layers as are wanted and fit; of a checkpoint those there are. Throws
// NoFeasibleConfiguration where not one layer fits.
std::shared_ptr<const Checkpoint> fitted(const std::shared_ptr<const Checkpoint>& checkpoint,
                                         const EngineOptions& options, const OpBenchSetup& setup);

}  // namespace moetune
