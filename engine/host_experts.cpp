#include "engine/host_experts.h"

#include <algorithm>
#include <cassert>
#include <chrono>

#include "kernels/expert_ffn.h"

namespace moetune {

HostExperts::HostExperts(Device& device, Cpu& host, std::shared_ptr<const Checkpoint> checkpoint,
                         const Shard& shard, const ExpertLayout& layout, std::int64_t tokens, int k)
    : store_(checkpoint, shard, layout),
      x_(device, tokens * layout.gate.in * element_bytes(NumberType::f32)),
      rows_(device, tokens * k * layout.down.out * element_bytes(NumberType::f32)),
      table_(static_cast<std::size_t>(checkpoint->spec().experts)) {
  Device memory = host;
  store_.keep_in_memory(memory, host);
}

void HostExperts::take_inputs(Device& device, const Tensor& x) {
  assert(x.contiguous() && x.elements() * element_bytes(x.type()) <= x_.bytes());
  tokens_ = x.dim(0);
  copy_to_host(device, x.data(), x_.data(), x.elements() * element_bytes(x.type()));
}

void HostExperts::compute(Device& device, Cpu& host, int moe_layer, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> experts, const Tensor& rows) {
  if (experts.empty()) return;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const ExpertLayout& layout = store_.layout();
  const auto count = static_cast<std::int64_t>(table_.size());
  std::ranges::fill(table_, -1);
  for (const std::int32_t expert : experts)
    table_[static_cast<std::size_t>(expert)] =
        static_cast<std::int32_t>(store_.weight_layer(moe_layer) * count + expert);
  const std::int64_t k = std::ssize(ids) / tokens_;
  const std::int64_t hidden = layout.gate.in;
  const Tensor here(rows_.data(), NumberType::f32, {tokens_, k, hidden});
  // A tensor is a view that may be written through; the op only reads its ids.
  const Tensor chosen(const_cast<std::int32_t*>(ids.data()), NumberType::i32, {tokens_, k});
  run(host, ExpertFfn{.x = {x_.data(), NumberType::f32, {tokens_, hidden}},
                      .ids = chosen,
                      .slot_of_expert = {table_.data(), NumberType::i32, {count}},
                      .slots = store_.in_memory(),
                      .layout = layout,
                      .rows = here});
  seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  const std::int64_t row_bytes = hidden * element_bytes(NumberType::f32);
  for (std::int64_t pair = 0; pair < std::ssize(ids); ++pair) {
    const std::int32_t expert = ids[static_cast<std::size_t>(pair)];  // -1: none
    if (expert < 0 || table_[static_cast<std::size_t>(expert)] < 0) continue;
    copy_to_device(device, rows_.data() + pair * row_bytes,
                   rows.f32() + pair / k * rows.stride(0) + pair % k * rows.stride(1), row_bytes);
  }
}

}  // namespace moetune
