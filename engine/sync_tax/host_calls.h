// When the host held a device up, from its calls of the CUDA runtime. Start at held_up().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sync_tax/interval.h"

namespace moetune {

// By the name of a call of the CUDA runtime or driver.
bool is_wait(std::string_view call);
bool is_launch(std::string_view call);
bool is_graph_launch(std::string_view call);

struct HostCall {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  bool waits = false;  // else it launches
};

// calls: of one thread, waits and launches only, in the order of their begins. device_begins_ns,
// device_ends_ns: ascending, when the device began and ended something. A wait that is over has seen the
// device out of work: from the last thing that ended before, until the next call that launches has returned
// and what it launched has begun, the device idles because of the host. Not from the begin of the wait: what
// is enqueued by then still runs, and gaps in it are not the host's. Nor to its end: whether the host waits
// or decides makes no difference. And not only to the launch: had the host launched ahead, the way to the
// device would have cost nothing.
std::vector<StepInterval> held_up(std::span<const HostCall> calls,
                                  std::span<const std::int64_t> device_begins_ns,
                                  std::span<const std::int64_t> device_ends_ns);

}  // namespace moetune
