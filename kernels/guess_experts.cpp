#include "kernels/guess_experts.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace moetune {
namespace {

// The k likeliest followers of one token's experts.
void follow(const FollowExperts& op, std::int64_t token) {
  const std::int64_t experts = op.next_counts.dim(1);
  std::vector<std::int64_t> sums(static_cast<std::size_t>(experts), 0);
  for (std::int64_t choice = 0; choice < op.ids.dim(1); ++choice) {
    const std::int32_t from = op.ids.i32()[token * op.ids.stride(0) + choice];
    if (from < 0) continue;
    for (std::int64_t to = 0; to < experts; ++to)
      sums[static_cast<std::size_t>(to)] += op.next_counts.i32()[from * experts + to];
  }
  std::vector<std::int32_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int32_t to) { return sums[static_cast<std::size_t>(to)]; });
  for (std::int64_t choice = 0; choice < op.guesses.dim(1); ++choice) {
    const bool is_known =
        choice < experts && sums[static_cast<std::size_t>(order[static_cast<std::size_t>(choice)])] > 0;
    op.guesses.i32()[token * op.guesses.stride(0) + choice] =
        is_known ? order[static_cast<std::size_t>(choice)] : -1;
  }
}

}  // namespace

void run(Cpu&, const FollowExperts& op) {
  const std::int64_t experts = op.counts.dim(1);
  for (std::int64_t token = 0; token < op.ids.dim(0); ++token) {
    const std::int32_t* chosen = op.ids.i32() + token * op.ids.stride(0);
    std::int32_t* before = op.before.i32() + token * op.before.stride(0);
    for (std::int64_t from = 0; op.learns && from < op.ids.dim(1); ++from)
      for (std::int64_t to = 0; to < op.ids.dim(1); ++to)
        if (before[from] >= 0 && chosen[to] >= 0) ++op.counts.i32()[before[from] * experts + chosen[to]];
    std::copy_n(chosen, op.ids.dim(1), before);
    if (!op.next_counts.empty()) follow(op, token);
  }
}

void run(Cpu&, const RecallExperts& op) {
  for (std::int64_t token = 0; token < op.token_ids.dim(0); ++token) {
    const std::int64_t id = op.token_ids.i32()[token];
    if (!op.ids.empty())
      std::copy_n(op.ids.i32() + token * op.ids.stride(0), op.ids.dim(1),
                  op.table.i32() + id * op.table.stride(0));
    if (!op.next_table.empty())
      std::copy_n(op.next_table.i32() + id * op.next_table.stride(0), op.guesses.dim(1),
                  op.guesses.i32() + token * op.guesses.stride(0));
  }
}

}  // namespace moetune
