// What of a study fits into memory: folded to be measured, whole to be launched. Start at for_launch().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/facts/hardware_fingerprint.h"
#include "engine/facts/model_spec.h"
#include "engine/facts/workload.h"
#include "engine/folding.h"
#include "tuner/commands/study.h"
#include "tuner/search_space.h"

namespace moetune {

// Where a configuration is to be recommended: the model as it will be launched must fit too, not only as it
// was folded to be measured.
Study for_launch(Study study);

// Bytes that have to be read between two uses of the same weights for the second to come from memory again.
std::int64_t cold_reuse_bytes(DeviceKind device);

// Where a synthetic model does not fit as it is: how far it is folded, for the most demanding workload. fold
// 0: cannot be folded, with the objection.
Fold fold_for(const ModelSpec& spec, const std::vector<Workload>& workloads,
              const HardwareFingerprint& hardware, DeviceKind device);

// What neither the load nor the model takes, and what does not fit; bytes: 0: memory is not looked at.
std::optional<std::string> objection_of(const ModelSpec& model, const Workload& workload,
                                        const EngineOptions& options, std::int64_t bytes);

// The largest share of the experts whose cache fits beside everything else; 0: none does.
double largest_share(const Study& study, EngineOptions options);

// Does it run here but for the memory?
bool is_about_memory(const Study& study, const Configuration& configuration);

// What does not fit by how much.
struct Misfit {
  std::string words;
  std::int64_t missing_bytes = 0;
};

// When nothing of the space fits into memory: the nearest configuration, the bytes missing and the knob that
// frees them. Empty: it is not about memory.
std::optional<Misfit> nearest_misfit(const Study& study, const SearchSpace& space);

// Of a configuration that is_about_memory(): what it needs beyond what is there.
std::int64_t missing_bytes(const Study& study, const Configuration& configuration);

}  // namespace moetune
