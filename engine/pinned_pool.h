// Pinned host memory for expert stores, kept when an engine lets go of it: pinning costs up to 1.2 s per GiB
// (an H200's host, measured), and a study makes an engine for every trial that changes weights.
#pragma once

#include <cstdint>

#include "engine/facts/model_spec.h"
#include "kernels/buffer.h"
#include "kernels/device.h"

namespace moetune {

// Memory that the device reads at the host's address; contents undefined. The last one given back is kept and
// handed out again where it suffices. On a CPU it is memory like any other. Throws std::bad_alloc when the
// host has no room or refuses to pin it.
SharedBuffer lease_pinned(Device& device, std::int64_t bytes);

// Most bytes of the host's memory that experts may take in all: three quarters of what this process may use
// (probe.h: of the machine or of its control group).
std::int64_t host_store_limit();

// And that may be pinned of them: 16 GiB for synthetic models, which can be folded further.
std::int64_t pinned_limit(const ModelSpec& spec);

}  // namespace moetune
