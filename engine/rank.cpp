#include "engine/rank.h"

#include <chrono>
#include <utility>

#include "engine/decode_loop.h"
#include "engine/host_experts.h"
#include "engine/host_router.h"
#include "engine/prefetcher.h"
#include "kernels/elementwise.h"
#include "kernels/fill.h"
#include "kernels/run.h"

namespace moetune {

Rank::Rank(const Cpu& cpu, Device on) : host(cpu), device(std::move(on)) {}
Rank::~Rank() = default;

bool Rank::host_must_know() const {
  const bool cache_asks = cache && !cache->is_resident() && !cache->looks_up_on_device();
  return shares_host_memory(device) || cache_asks || host_router || observer;
}

void on_host(Rank& rank, const std::function<void()>& part) {
  if (rank.pieces != nullptr)
    rank.pieces->host(part);
  else
    part();
}

void all_reduce(Rank& rank, const Tensor& x) {
  if (rank.group == nullptr) return;
  const OpScope scope(rank.recorder, Activity::collective);
  const auto start = std::chrono::steady_clock::now();
  run(rank.device, AllReduce{.x = x, .group = rank.group, .rank = rank.shard.rank});
  rank.communication_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Tensor begin_half_layer(Rank& rank, std::int64_t tokens) {
  if (rank.group == nullptr) return first_rows(rank.scratch.residual, {tokens, rank.spec->hidden});
  const Tensor output = first_rows(rank.scratch.output, {tokens, rank.spec->hidden});
  run(rank, Row::other, Fill{.x = output, .value = 0.0F});
  return output;
}

void end_half_layer(Rank& rank, std::int64_t tokens) {
  if (rank.group == nullptr) return;
  const Tensor output = first_rows(rank.scratch.output, {tokens, rank.spec->hidden});
  all_reduce(rank, output);
  run(rank, Row::other,
      Add{.x = output, .y = first_rows(rank.scratch.residual, {tokens, rank.spec->hidden})});
}

}  // namespace moetune
