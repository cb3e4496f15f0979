// What an expert that is not resident costs on this machine, by the way it is handled: the cost model of a
// step over an expert cache. Start at exposed_ms(); measure_miss_costs() gives its numbers.
//
//   a step takes  t_resident + layers x layer_us + layers that miss x missing_layer_us + misses x miss_us
//
// and, where the processor computes what is missing, layers that miss x beside_us in place of the last two if
// that is more: the copy of the one expert a layer that is promoted meanwhile (expert_cache.h).
// Nothing of it is hidden: at one sequence a layer's experts cannot start before the last of them has come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "kernels/device.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct MissCosts {
  struct Way {
    double layer_us = 0.0;  // every layer that routes, hit or miss: a question to the host or a lookup
    double missing_layer_us = 0.0;  // beside it where anything is missing
    double miss_us = 0.0;           // per missing expert
    double beside_us = 0.0;  // what goes on meanwhile where anything is missing: it takes as long at least
    // One layer of a step in which so many experts are missing.
    double us(double missing) const {
      return layer_us + (missing > 0.0 ? std::max(beside_us, missing_layer_us + missing * miss_us) : 0.0);
    }
  };
  std::int64_t expert_bytes = 0;
  Way dma;
  Way pull;
  Way cpu;  // computed on the host, one layer after the other; what the GPU computes meanwhile is not taken
            // off

  const Way& of(MissHandling miss) const {
    return miss == MissHandling::dma ? dma : miss == MissHandling::pull ? pull : cpu;
  }
};

// What a step asks of a cache, on average.
struct StepMisses {
  double layers = 0.0;          // that route
  double missing_layers = 0.0;  // of them: those that miss any expert
  double misses = 0.0;
};
double exposed_ms(const MissCosts::Way& way, const StepMisses& step);

// `way` costs less than `other` in a layer that misses so many experts or more, up to most; empty: in none of
// them.
std::optional<int> cheaper_from(const MissCosts::Way& way, const MissCosts::Way& other, int most);

// The way that costs a layer least in which so many experts are missing.
MissHandling cheapest_of(const MissCosts& costs, double missing);

// The model's own experts and where they lie.
struct ExpertsOutside {
  ExpertLayout layout;       // in the store and in a slot
  ExpertLayout host_layout;  // as the processor computes it
  int k = 1;                 // that a token asks for
  const std::byte* store =
      nullptr;  // blocks of layout.bytes that the device reads: pinned memory; contents do not matter
  std::int64_t blocks = 0;  // at least two
};
// Takes about a third of a second where an expert has 10 MB. Allocates up to 4 experts on the device and, for
// cpu, half a GiB on the host. One way alone has no beside_us. Medians; on a GPU by its own clock. Throws
// std::bad_alloc; std::invalid_argument for fewer than two blocks.
MissCosts::Way measure_miss_cost(MissHandling way, Device& device, Cpu& host, const ExpertsOutside& experts);
MissCosts measure_miss_costs(Device& device, Cpu& host, const ExpertsOutside& experts);  // all ways

// The same for a model on a GPU, read from the pinned block that an engine made next takes over
// (pinned_pool.h). Empty: its experts may not be pinned. Throws std::bad_alloc; std::runtime_error without a
// GPU.
std::optional<MissCosts> miss_costs_of(const ModelSpec& spec, const EngineOptions& options);

}  // namespace moetune
