#include "engine/sync_tax/account.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace moetune {
namespace {

// Classes of intervals in the order in which they take an instant: the rows that compute, the router last of
// them, then what is no compute.
constexpr std::size_t kClasses = kRows + kActivities - 1;
constexpr std::size_t kRouterClass = kRows - 1;
constexpr std::size_t kRecordingClass = kRows + static_cast<std::size_t>(Activity::recording) - 1;

std::size_t class_of(const StepInterval& interval) {
  if (interval.activity != Activity::compute) return kRows + static_cast<std::size_t>(interval.activity) - 1;
  return interval.row == Row::router ? kRouterClass : static_cast<std::size_t>(interval.row) - 1;
}

Row row_of(std::size_t which) { return which == kRouterClass ? Row::router : static_cast<Row>(which + 1); }

Part part_of_class(std::size_t which) {
  if (which < kRows) return part_of(Activity::compute, row_of(which));
  return part_of(static_cast<Activity>(which - kRows + 1), Row::other);
}

struct Edge {
  std::int64_t at_ns;
  std::size_t which;
  int change;  // +1 an interval begins, -1 it ends
};

std::vector<Edge> edges_of(std::int64_t begin_ns, std::int64_t end_ns,
                           std::span<const StepInterval> intervals, Account& sum) {
  std::vector<Edge> edges;
  edges.reserve(2 * intervals.size());
  for (const StepInterval& interval : intervals) {
    if (interval.end_ns < interval.begin_ns) throw std::invalid_argument("an interval ends before it begins");
    const std::int64_t from = std::max(begin_ns, interval.begin_ns);
    const std::int64_t to = std::min(end_ns, interval.end_ns);
    if (from > to || interval.begin_ns >= end_ns) continue;
    const std::size_t which = class_of(interval);
    if (which != kRecordingClass) ++sum.records[static_cast<std::size_t>(part_of_class(which))];
    if (from == to) continue;
    edges.push_back({from, which, +1});
    edges.push_back({to, which, -1});
  }
  std::ranges::sort(edges, {}, &Edge::at_ns);
  return edges;
}

// The time until the next edge, with that many intervals of each class at work.
void add_span(const std::array<int, kClasses>& active, std::int64_t length_ns, Account& sum) {
  const auto* const first = std::ranges::find_if(active, [](int count) { return count > 0; });
  const auto winner = static_cast<std::size_t>(first - active.begin());
  if (winner == kRecordingClass) {
    sum.recording_ns += length_ns;
    return;
  }
  const Part part = winner == kClasses ? Part::launch_gaps : part_of_class(winner);
  sum.exposed_ns[static_cast<std::size_t>(part)] += length_ns;
  if (winner < kRows) sum.row_ns[static_cast<std::size_t>(row_of(winner))] += length_ns;
  std::array<bool, kParts> is_hidden{};
  for (std::size_t which = winner + 1; which < kClasses; ++which) {
    if (active[which] == 0 || which == kRecordingClass) continue;
    if (which < kRows) sum.row_hidden_ns[static_cast<std::size_t>(row_of(which))] += length_ns;
    if (part_of_class(which) != part) is_hidden[static_cast<std::size_t>(part_of_class(which))] = true;
  }
  for (std::size_t hidden = 0; hidden < kParts; ++hidden)
    if (is_hidden[hidden]) sum.hidden_ns[hidden] += length_ns;
}

template <std::size_t N>
void add(std::array<std::int64_t, N>& to, const std::array<std::int64_t, N>& from) {
  for (std::size_t i = 0; i < N; ++i) to[i] += from[i];
}

}  // namespace

Account& Account::operator+=(const Account& other) {
  length_ns += other.length_ns;
  recording_ns += other.recording_ns;
  add(exposed_ns, other.exposed_ns);
  add(hidden_ns, other.hidden_ns);
  add(row_ns, other.row_ns);
  add(row_hidden_ns, other.row_hidden_ns);
  add(records, other.records);
  return *this;
}

std::int64_t Account::record_count() const {
  return std::accumulate(records.begin(), records.end(), std::int64_t{0});
}

Account account(std::int64_t begin_ns, std::int64_t end_ns, std::span<const StepInterval> intervals) {
  if (end_ns < begin_ns) throw std::invalid_argument("a window ends before it begins");
  Account sum;
  sum.length_ns = end_ns - begin_ns;
  std::array<int, kClasses> active{};
  std::int64_t now_ns = begin_ns;
  for (const Edge& edge : edges_of(begin_ns, end_ns, intervals, sum)) {
    if (edge.at_ns > now_ns) add_span(active, edge.at_ns - now_ns, sum);
    now_ns = edge.at_ns;
    active[edge.which] += edge.change;
  }
  if (end_ns > now_ns) add_span(active, end_ns - now_ns, sum);
  return sum;
}

}  // namespace moetune
