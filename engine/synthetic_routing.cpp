#include "engine/synthetic_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/philox.h"

namespace moetune {
namespace {

constexpr std::uint32_t kRanks = 0x52414E4BU;  // apart from the draws of tokens

// All parts together have the deviation 1: sigmoids stay within reach of each other.
double normalization(const SyntheticRouting& routing, bool is_first) {
  const double held = is_first ? 0.0 : routing.held;
  return 1.0 / std::sqrt(1.0 + held * held + routing.surprise * routing.surprise);
}

int weight_of(double value) { return static_cast<int>(std::lround(value * kSyntheticWeightOne)); }

bool is_first_that_routes(const ModelSpec& spec, int layer) {
  return std::find(spec.moe_layers.begin(), spec.moe_layers.end(), true) - spec.moe_layers.begin() == layer;
}

}  // namespace

SyntheticLogits synthetic_logits(const ModelSpec& spec, std::uint64_t seed, int layer) {
  const SyntheticRouting& routing = spec.synthetic_routing.value();
  const bool is_first = is_first_that_routes(spec, layer);
  const double unit = normalization(routing, is_first);
  SyntheticLogits op;
  op.seed = seed;
  op.layer = static_cast<std::uint32_t>(layer);
  op.hold_tokens = routing.hold_tokens;
  op.favour_weight = is_first ? 0 : 1;
  op.held_weight = is_first ? 0 : weight_of(routing.held * unit);
  op.fresh_weight = weight_of(unit);
  op.surprise_weight = weight_of(routing.surprise * unit);
  return op;
}

std::vector<std::int32_t> synthetic_favour(const ModelSpec& spec, std::uint64_t seed, int layer) {
  const SyntheticRouting& routing = spec.synthetic_routing.value();
  const auto experts = static_cast<std::size_t>(spec.experts);
  std::vector<std::uint32_t> draws(experts);
  for (std::size_t expert = 0; expert < experts; ++expert)
    draws[expert] =
        philox({static_cast<std::uint32_t>(expert), static_cast<std::uint32_t>(layer), kRanks, 0}, seed)[0];
  std::vector<std::size_t> by_rank(experts);
  std::iota(by_rank.begin(), by_rank.end(), std::size_t{0});
  std::ranges::stable_sort(by_rank, {}, [&](std::size_t expert) { return draws[expert]; });
  double mean = 0.0;
  for (std::size_t rank = 0; rank < experts; ++rank)
    mean += std::log(static_cast<double>(rank + 1)) / static_cast<double>(experts);
  const double unit = routing.popularity * normalization(routing, false) * kSyntheticWeightOne *
                      static_cast<double>(kSyntheticDeviation);
  std::vector<std::int32_t> favour(experts);
  for (std::size_t rank = 0; rank < experts; ++rank)
    favour[by_rank[rank]] =
        static_cast<std::int32_t>(std::lround(unit * (mean - std::log(static_cast<double>(rank + 1)))));
  return favour;
}

}  // namespace moetune
