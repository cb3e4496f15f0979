// miss=cpu: experts that have no slot on the device are computed on the host, by the CPU's op and out of a
// second store in the CPU's own layout, while the device computes those that it has. Each writes its
// (token, rank) rows, so that the sum does not care who was where.
//
//   if (!experts.empty()) host_experts.take_inputs(device, x);        // behind the routing
//   run(device, ExpertFfn{...});                                      // what has a slot
//   host_experts.compute(device, host, moe_layer, ids, experts, rows);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/expert_store.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

class HostExperts {
 public:
  // layout: in rows. tokens, k: most of one step. Packs all experts into memory; throws as ExpertStore does.
  HostExperts(Device& device, Cpu& host, std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard,
              const ExpertLayout& layout, std::int64_t tokens, int k);

  // x: (tokens, hidden) f32 on the device. Waits for it.
  void take_inputs(Device& device, const Tensor& x);

  // ids: (tokens, k) of the step whose inputs were taken; experts: those of them to compute. Their rows of
  // `rows`, (tokens, k, hidden) on the device, are on their way when this returns.
  void compute(Device& device, Cpu& host, int moe_layer, std::span<const std::int32_t> ids,
               std::span<const std::int32_t> experts, const Tensor& rows);

  double seconds() const { return seconds_; }  // in compute(), since the last reset
  void reset_seconds() { seconds_ = 0.0; }
  std::int64_t host_bytes() const { return store_.outside_bytes(); }

 private:
  ExpertStore store_;
  SharedBuffer x_;
  SharedBuffer rows_;
  std::vector<std::int32_t> table_;  // (experts): block of the store, -1: the device's
  std::int64_t tokens_ = 0;          // of the inputs taken
  double seconds_ = 0.0;
};

}  // namespace moetune
