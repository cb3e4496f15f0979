#include "engine/sync_tax/trace_ranges.h"

#include <algorithm>
#include <tuple>

#include "engine/sync_tax/range_names.h"

namespace moetune {
namespace {

constexpr int most_copies = 16;  // of copies of a node: a file may hold a ring

}  // namespace

void TraceRanges::range(std::int64_t thread, std::string_view text, std::int64_t begin_ns,
                        std::int64_t end_ns) {
  const auto is = class_of_range(text);
  if (is && begin_ns <= end_ns) threads_[thread].ranges.push_back({begin_ns, end_ns, *is, -1});
}

void TraceRanges::node(std::int64_t process, std::int64_t node, std::int64_t original, std::int64_t thread,
                       std::int64_t at_ns) {
  nodes_.try_emplace({process, node}, Place{thread, at_ns, original});
}

void TraceRanges::call(std::int64_t process, std::int64_t correlation, std::int64_t thread,
                       std::int64_t at_ns) {
  calls_.try_emplace({process, correlation}, Place{thread, at_ns});
}

std::optional<KernelClass> TraceRanges::of(std::int64_t process, std::int64_t node,
                                           std::int64_t correlation) {
  if (node == 0) {
    const auto call = calls_.find({process, correlation});
    return call == calls_.end() ? std::nullopt : at(call->second);
  }
  auto found = nodes_.find({process, node});
  for (int copies = 0; found != nodes_.end() && found->second.original != 0; ++copies) {
    if (copies == most_copies) return std::nullopt;
    found = nodes_.find({process, found->second.original});
  }
  return found == nodes_.end() ? std::nullopt : at(found->second);
}

std::optional<KernelClass> TraceRanges::at(const Place& place) {
  const auto found = threads_.find(place.thread);
  if (found == threads_.end()) return std::nullopt;
  auto& [ranges, is_nested] = found->second;
  if (!is_nested) {
    std::ranges::stable_sort(ranges, [](const Range& a, const Range& b) {
      return std::tie(a.begin_ns, b.end_ns) < std::tie(b.begin_ns, a.end_ns);
    });
    std::vector<std::ptrdiff_t> open;
    for (std::ptrdiff_t i = 0; i < std::ssize(ranges); ++i) {
      Range& range = ranges[static_cast<std::size_t>(i)];
      while (!open.empty() && ranges[static_cast<std::size_t>(open.back())].end_ns <= range.begin_ns)
        open.pop_back();
      range.outer = open.empty() ? -1 : open.back();
      open.push_back(i);
    }
    is_nested = true;
  }
  const auto behind = std::ranges::upper_bound(ranges, place.at_ns, {}, &Range::begin_ns);
  std::ptrdiff_t which = behind - ranges.begin() - 1;
  while (which >= 0 && ranges[static_cast<std::size_t>(which)].end_ns <= place.at_ns)
    which = ranges[static_cast<std::size_t>(which)].outer;
  return which < 0 ? std::nullopt : std::optional(ranges[static_cast<std::size_t>(which)].is);
}

}  // namespace moetune
