#include "kernels/trace_labels.h"

#include <atomic>

namespace moetune {
namespace {

std::atomic<std::int64_t> made{0};

}  // namespace

TraceLabels::TraceLabels() : number_(++made) {}

void TraceLabels::node_copied(std::uint64_t from, std::uint64_t to) {
  const auto known = of_node_.find(from);
  if (known != of_node_.end()) of_node_[to] = known->second;
}

std::uint32_t TraceLabels::of(std::uint64_t node, std::uint32_t correlation) const {
  if (node != 0) {
    const auto known = of_node_.find(node);
    return known == of_node_.end() ? 0 : known->second;
  }
  const auto known = of_call_.find(correlation);
  return known == of_call_.end() ? 0 : known->second;
}

}  // namespace moetune
