#include "engine/rank.h"

#include <chrono>

#include "kernels/run.h"

namespace moetune {

void all_reduce(Rank& rank, const Tensor& x) {
  if (rank.group == nullptr) return;
  const auto start = std::chrono::steady_clock::now();
  run(rank.device, AllReduce{.x = x, .group = rank.group, .rank = rank.shard.rank});
  rank.communication_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace moetune
