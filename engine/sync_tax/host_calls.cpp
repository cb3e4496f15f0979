#include "engine/sync_tax/host_calls.h"

#include <algorithm>

namespace moetune {
namespace {

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

}  // namespace

bool is_wait(std::string_view call) {
  return has(call, "Synchronize") || (has(call, "Memcpy") && !has(call, "Async") && !has(call, "Node"));
}

bool is_launch(std::string_view call) {
  return has(call, "Launch") || has(call, "MemcpyAsync") || has(call, "MemsetAsync") ||
         has(call, "MemcpyHtoDAsync");
}

bool is_graph_launch(std::string_view call) { return has(call, "GraphLaunch"); }

std::vector<StepInterval> held_up(std::span<const HostCall> calls,
                                  std::span<const std::int64_t> device_begins_ns,
                                  std::span<const std::int64_t> device_ends_ns) {
  std::vector<StepInterval> intervals;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].waits) continue;
    std::int64_t begin_ns = calls[i].begin_ns;
    std::int64_t end_ns = calls[i].end_ns;
    const auto after = std::ranges::upper_bound(device_ends_ns, end_ns);
    if (after != device_ends_ns.begin()) begin_ns = std::max(begin_ns, *(after - 1));
    while (i + 1 < calls.size() && calls[i].waits) end_ns = std::max(end_ns, calls[++i].end_ns);
    if (!calls[i].waits) {
      const auto launched = std::ranges::lower_bound(device_begins_ns, calls[i].begin_ns);
      if (launched != device_begins_ns.end()) end_ns = std::max(end_ns, *launched);
    }
    intervals.push_back({begin_ns, end_ns, Activity::host_wait, Row::other, -1});
  }
  return intervals;
}

}  // namespace moetune
