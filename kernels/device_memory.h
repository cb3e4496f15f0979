// What is known about a device's memory beside the buffers that were asked for, and how often the host has
// waited for it. On a CPU there is nothing to reserve.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace moetune {

// Memory that ops take for their intermediate results grows when an op needs more, which waits for the device
// and makes graphs stale. Taken beforehand, it is part of a plan. Throws std::bad_alloc.
void reserve_scratch(Device& device, std::int64_t bytes);

// How often this process has waited for a GPU so far: for a result, or for everything enqueued. 0 on a CPU.
std::int64_t host_waits(Device& device);

// Free on the device now, for every program together; 0 on a CPU.
std::int64_t free_device_bytes(Device& device);

}  // namespace moetune
