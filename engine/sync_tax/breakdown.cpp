#include "engine/sync_tax/breakdown.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace moetune {
namespace {

std::size_t index(Part part) { return static_cast<std::size_t>(part); }

std::vector<std::size_t> by_length(std::span<const std::int64_t> lengths_ns) {
  std::vector<std::size_t> order(lengths_ns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lengths_ns[i]; });
  return order;
}

// What a part would have been without recording; never below nothing, so the rest stays unexplained.
double without(double ns, double cost_ns) { return std::max(0.0, ns - std::min(ns, cost_ns)); }

}  // namespace

double Breakdown::tax_ns() const {
  return exposed_ns[index(Part::communication)] + exposed_ns[index(Part::expert_loading)] + uncounted_ns();
}

double Breakdown::uncounted_ns() const {
  return exposed_ns[index(Part::synchronisation)] + exposed_ns[index(Part::launch_gaps)];
}

double Breakdown::tax_share() const { return token_ns > 0.0 ? tax_ns() / token_ns : 0.0; }

Breakdown break_down(std::span<const Account> accounts, double plain_ns, const RecordingCost& cost) {
  Breakdown result;
  result.token_ns = plain_ns;
  result.n = std::ssize(accounts);
  if (accounts.empty() || plain_ns <= 0.0) {
    result.refused = accounts.empty() ? "nothing was recorded" : "the time without recording is not known";
    return result;
  }
  Account sum;
  for (const Account& one : accounts) sum += one;
  const auto per_token = [&](std::int64_t total) {
    return static_cast<double>(total) / static_cast<double>(accounts.size());
  };
  result.recorded_ns = per_token(sum.length_ns);
  result.recording_ns =
      per_token(sum.recording_ns) + per_token(sum.record_count()) * (cost.inside_ns + cost.outside_ns);
  const bool is_too_slow = result.recorded_ns > kMostRecordedShare * plain_ns;
  if (is_too_slow)
    result.refused = fmt::format(
        "recorded, a token takes {:.2f} times its plain time; beyond {:.2f} what is recorded is not what "
        "runs otherwise",
        result.recorded_ns / plain_ns, kMostRecordedShare);

  double explained_ns = 0.0;
  for (std::size_t part = 0; part < kParts; ++part) {
    const double own_ns = per_token(sum.records[part]) * cost.inside_ns;
    const double gaps_ns =
        part == index(Part::launch_gaps) ? per_token(sum.record_count()) * cost.outside_ns : 0.0;
    result.exposed_ns[part] = without(per_token(sum.exposed_ns[part]), own_ns + gaps_ns);
    result.hidden_ns[part] = per_token(sum.hidden_ns[part]);
    explained_ns += result.exposed_ns[part];
  }
  // Rows are shares of the parts they belong to.
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::size_t part = index(part_of(Activity::compute, static_cast<Row>(row)));
    const double whole_ns = per_token(sum.exposed_ns[part]);
    if (whole_ns > 0.0) result.row_ns[row] = per_token(sum.row_ns[row]) * result.exposed_ns[part] / whole_ns;
  }
  result.unexplained_ns = plain_ns - explained_ns;
  return result;
}

std::vector<std::size_t> middle_half(std::span<const std::int64_t> lengths_ns) {
  const std::vector<std::size_t> order = by_length(lengths_ns);
  if (order.empty()) return order;
  const std::size_t low = order.size() / 4;
  return {order.begin() + static_cast<std::ptrdiff_t>(low), order.end() - static_cast<std::ptrdiff_t>(low)};
}

double middle_mean(std::span<const std::int64_t> lengths_ns) {
  double sum = 0.0;
  const std::vector<std::size_t> middle = middle_half(lengths_ns);
  for (const std::size_t i : middle) sum += static_cast<double>(lengths_ns[i]);
  return middle.empty() ? 0.0 : sum / static_cast<double>(middle.size());
}

std::vector<std::size_t> slowest_hundredth(std::span<const std::int64_t> lengths_ns) {
  if (lengths_ns.size() < 100) return {};
  const std::vector<std::size_t> order = by_length(lengths_ns);
  return {order.end() - static_cast<std::ptrdiff_t>(order.size() / 100), order.end()};
}

}  // namespace moetune
