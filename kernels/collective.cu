// Ranks of one process add up on the host: they may share one GPU, where NCCL refuses to run two ranks.
#include <vector>

#include "kernels/collective.h"
#include "kernels/cuda_memory.h"

namespace moetune {

void run(Cuda& cuda, const AllReduce& op) {
  const std::int64_t bytes = op.x.elements() * element_bytes(op.x.type());
  std::vector<std::byte> host(static_cast<std::size_t>(bytes));
  cuda_copy_to_host(cuda, op.x.data(), host.data(), bytes);
  AllReduce on_host = op;
  on_host.x = op.x.moved_to(host.data());
  Cpu cpu(1);
  run(cpu, on_host);
  cuda_copy_to_device(cuda, host.data(), op.x.data(), bytes);
}

}  // namespace moetune
