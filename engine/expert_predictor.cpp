#include "engine/expert_predictor.h"

#include <algorithm>
#include <numeric>

namespace moetune {

std::vector<std::int32_t> by_rank(std::span<const std::int32_t> ids, int k, std::size_t most) {
  std::vector<std::int32_t> list;
  const auto width = static_cast<std::size_t>(k);
  for (std::size_t rank = 0; rank < width; ++rank)
    for (std::size_t at = rank; at < ids.size(); at += width) {
      if (list.size() == most) return list;
      if (ids[at] >= 0 && std::ranges::find(list, ids[at]) == list.end()) list.push_back(ids[at]);
    }
  return list;
}

ExpertPredictor::ExpertPredictor(Prefetch kind, int layers, int experts)
    : kind_(kind), layers_(layers), experts_(experts) {
  forget();
}

void ExpertPredictor::forget() {
  last_.assign(static_cast<std::size_t>(layers_), {});
  last_k_.assign(static_cast<std::size_t>(layers_), 1);
  counts_.clear();
  table_.clear();
}

std::uint32_t& ExpertPredictor::count(int moe_layer, std::int32_t from, std::int32_t to) {
  return counts_[(static_cast<std::size_t>(moe_layer) * static_cast<std::size_t>(experts_) +
                  static_cast<std::size_t>(from)) *
                     static_cast<std::size_t>(experts_) +
                 static_cast<std::size_t>(to)];
}

void ExpertPredictor::learn(int moe_layer, const LayerChoice& choice, const LayerChoice& before) {
  const auto layer = static_cast<std::size_t>(moe_layer);
  const auto width = static_cast<std::size_t>(choice.k);
  if (kind_ == Prefetch::repeat) {
    last_[layer].assign(choice.ids.begin(), choice.ids.end());
    last_k_[layer] = choice.k;
  }
  if (kind_ == Prefetch::markov && !before.ids.empty()) {
    const auto experts = static_cast<std::size_t>(experts_);
    if (counts_.empty()) counts_.resize(static_cast<std::size_t>(layers_) * experts * experts);
    for (std::size_t first = 0; first < choice.ids.size(); first += width)
      for (const std::int32_t from : before.ids.subspan(first, width))
        for (const std::int32_t to : choice.ids.subspan(first, width))
          if (from >= 0 && to >= 0) ++count(moe_layer, from, to);
  }
  if (kind_ == Prefetch::table)
    for (std::size_t token = 0; token < choice.token_ids.size(); ++token) {
      const auto ids = choice.ids.subspan(token * width, width);
      table_[table_key(moe_layer, choice.token_ids[token])].assign(ids.begin(), ids.end());
    }
}

std::vector<std::int32_t> ExpertPredictor::followers(int moe_layer, std::span<const std::int32_t> from,
                                                     int k) const {
  const auto experts = static_cast<std::size_t>(experts_);
  std::vector<std::uint64_t> sums(experts, 0);
  for (const std::int32_t expert : from) {
    if (expert < 0) continue;
    const std::size_t row =
        (static_cast<std::size_t>(moe_layer) * experts + static_cast<std::size_t>(expert)) * experts;
    for (std::size_t to = 0; to < experts; ++to) sums[to] += counts_[row + to];
  }
  std::vector<std::int32_t> order(experts);
  std::iota(order.begin(), order.end(), 0);
  const auto kept = static_cast<std::ptrdiff_t>(std::min(static_cast<std::size_t>(k), experts));
  std::ranges::partial_sort(order, order.begin() + kept, [&](std::int32_t a, std::int32_t b) {
    const std::uint64_t first = sums[static_cast<std::size_t>(a)];
    const std::uint64_t second = sums[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  });
  order.resize(static_cast<std::size_t>(kept));
  for (std::int32_t& expert : order)
    if (sums[static_cast<std::size_t>(expert)] == 0) expert = -1;  // never seen: no guess
  return order;
}

std::vector<std::int32_t> ExpertPredictor::predict(int moe_layer, const LayerChoice& before,
                                                   std::size_t most) const {
  if (kind_ == Prefetch::repeat)
    return by_rank(last_[static_cast<std::size_t>(moe_layer)], last_k_[static_cast<std::size_t>(moe_layer)],
                   most);
  const auto width = static_cast<std::size_t>(before.k);
  std::vector<std::int32_t> guesses;  // (tokens, k)
  if (kind_ == Prefetch::markov && !before.ids.empty() && !counts_.empty())
    for (std::size_t first = 0; first < before.ids.size(); first += width) {
      std::vector<std::int32_t> of_token = followers(moe_layer, before.ids.subspan(first, width), before.k);
      of_token.resize(width, -1);
      guesses.insert(guesses.end(), of_token.begin(), of_token.end());
    }
  if (kind_ == Prefetch::table)
    for (const std::int32_t id : before.token_ids) {
      const auto found = table_.find(table_key(moe_layer, id));
      std::vector<std::int32_t> of_token =
          found == table_.end() ? std::vector<std::int32_t>() : found->second;
      of_token.resize(width, -1);
      guesses.insert(guesses.end(), of_token.begin(), of_token.end());
    }
  return by_rank(guesses, std::max(before.k, 1), most);
}

std::int64_t ExpertPredictor::bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(counts_.size() * sizeof(std::uint32_t));
  for (const auto& list : last_) bytes += static_cast<std::int64_t>(list.size() * sizeof(std::int32_t));
  for (const auto& [key, ids] : table_)
    bytes += static_cast<std::int64_t>(sizeof key + ids.size() * sizeof(std::int32_t));
  return bytes;
}

}  // namespace moetune
