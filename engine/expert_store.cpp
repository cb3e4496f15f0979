#include "engine/expert_store.h"

#include <algorithm>

#include <cstring>

#include "engine/folding.h"
#include "engine/pinned_pool.h"
#include "kernels/buffer.h"

namespace moetune {
namespace {

// Packing one expert is work for one thread: experts run side by side on the caller's pool.
Cpu& single_thread() {
  static Cpu cpu(1);
  return cpu;
}

constexpr std::int64_t kStagingBytes = std::int64_t{256} << 20;  // on the way to a GPU

}  // namespace

ExpertStore::ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard,
                         const ExpertLayout& layout)
    : checkpoint_(std::move(checkpoint)),
      shard_(shard),
      layout_(layout),
      inner_(shard.expert_inner(checkpoint_->spec())),
      experts_(checkpoint_->spec().experts),
      weight_layers_(distinct_moe_layers(checkpoint_->spec())) {
  const ModelSpec& spec = checkpoint_->spec();
  for (int layer = 0; layer < spec.layers; ++layer) {
    if (!spec.moe_layers[static_cast<std::size_t>(layer)] || moetune::weight_layer(spec, layer) != layer)
      continue;
    for (int expert = 0; expert < spec.experts; ++expert)
      sources_.push_back(expert_sources(*checkpoint_, layer, expert));
  }
}

std::array<MatrixShape, 3> ExpertStore::shapes() const {
  const Slice hidden{0, layout_.down.out};
  const NumberType type = layout_.gate.type;
  const Packing packing = layout_.gate.packing;
  return {
      {{type, inner_, hidden, packing}, {type, inner_, hidden, packing}, {type, hidden, inner_, packing}}};
}

void ExpertStore::load(int moe_layer, int expert, void* destination) const {
  const std::size_t index = index_of(moe_layer, expert);
  if (in_memory_.data() != nullptr)
    std::memcpy(destination, in_memory_.data() + static_cast<std::int64_t>(index) * layout_.bytes,
                static_cast<std::size_t>(layout_.bytes));
  else if (spill_)
    spill_->read(static_cast<std::int64_t>(index), destination);
  else
    pack(index, destination);
}

void ExpertStore::pack(std::size_t index, void* destination) const {
  const ExpertSources& source = sources_[index];
  const auto [gate, up, down] = shapes();
  auto* bytes = static_cast<std::byte*>(destination);
  read_source(files_, single_thread(), source.gate, gate, bytes);
  read_source(files_, single_thread(), source.up, up, bytes + layout_.up_offset);
  read_source(files_, single_thread(), source.down, down, bytes + layout_.down_offset);
}

void ExpertStore::generate(Device& device, const Wanted& wanted) const {
  const ExpertSources& source = sources_[index_of(wanted.moe_layer, wanted.expert)];
  const auto [gate, up, down] = shapes();
  Cpu& unused = single_thread();
  load_matrix(files_, device, unused, source.gate, gate, wanted.destination);
  load_matrix(files_, device, unused, source.up, up, wanted.destination + layout_.up_offset);
  load_matrix(files_, device, unused, source.down, down, wanted.destination + layout_.down_offset);
}

void ExpertStore::load_by_way_of_host(Device& device, Cpu& host, std::span<const Wanted> wanted) const {
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(1, kStagingBytes / layout_.bytes));
  std::vector<std::byte> staging(std::min(batch, wanted.size()) * static_cast<std::size_t>(layout_.bytes));
  const auto staged = [&](std::int64_t i) { return staging.data() + i * layout_.bytes; };
  for (std::size_t begin = 0; begin < wanted.size(); begin += batch) {
    const std::span<const Wanted> some = wanted.subspan(begin, std::min(batch, wanted.size() - begin));
    host.pool().parallel_for(std::ssize(some), 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        const Wanted& one = some[static_cast<std::size_t>(i)];
        load(one.moe_layer, one.expert, staged(i));
      }
    });
    for (std::int64_t i = 0; i < std::ssize(some); ++i)
      copy_to_device(device, staged(i), some[static_cast<std::size_t>(i)].destination, layout_.bytes);
  }
}

void ExpertStore::load_all(Device& device, Cpu& host, std::span<const Wanted> wanted) const {
  if (!shares_host_memory(device)) {
    if (in_memory_.data() !=
        nullptr) {  // copies out of pinned memory: nothing waits for them but what follows on the device
      for (const Wanted& one : wanted)
        copy_to_device(device, in_memory(one.moe_layer, one.expert), one.destination, layout_.bytes);
      return;
    }
    if (spill_ || !checkpoint_->spec().is_synthetic) return load_by_way_of_host(device, host, wanted);
    for (const Wanted& one : wanted) generate(device, one);
    return;
  }
  host.pool().parallel_for(std::ssize(wanted), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Wanted& one = wanted[static_cast<std::size_t>(i)];
      load(one.moe_layer, one.expert, one.destination);
    }
  });
}

void ExpertStore::keep_in_memory(Device& device, Cpu& host) {
  if (in_memory_.data() != nullptr) return;
  SharedBuffer memory = lease_pinned(device, outside_bytes());
  if (!shares_host_memory(device) &&
      checkpoint_->spec().is_synthetic) {  // a GPU generates faster than any host
    const Buffer staging(device, layout_.bytes);
    for (int layer = 0; layer < weight_layers_; ++layer)
      for (int expert = 0; expert < experts_; ++expert) {
        generate(device, {layer, expert, staging.data()});
        copy_to_host(device, staging.data(),
                     memory.data() + static_cast<std::int64_t>(index_of(layer, expert)) * layout_.bytes,
                     layout_.bytes);
      }
  } else {
    host.pool().parallel_for(std::ssize(sources_), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        pack(static_cast<std::size_t>(i), memory.data() + i * layout_.bytes);
    });
  }
  in_memory_ = std::move(memory);
}

void ExpertStore::keep_outside(ParallelPool& pool) {
  const bool is_made =
      layout_.gate.scales_per_row > 0 || layout_.gate.packing == Packing::tiles;  // not just read
  if (spill_ || in_memory_.data() != nullptr || !(is_made || checkpoint_->spec().is_synthetic)) return;
  const SpillContents contents{.model_hash = checkpoint_->spec().content_hash,
                               .number_type = std::string(name_of(layout_.gate.type)) +
                                              (layout_.gate.packing == Packing::tiles ? "-tiles" : ""),
                               .rank = shard_.rank,
                               .ranks = shard_.ranks,
                               .experts = static_cast<std::int64_t>(sources_.size()),
                               .expert_bytes = layout_.bytes};
  spill_ = open_spill_file(spill_directory(), contents,
                           [&](std::int64_t begin, std::int64_t count, std::byte* destination) {
                             pool.parallel_for(count, 1, [&](std::int64_t first, std::int64_t end) {
                               for (std::int64_t i = first; i < end; ++i)
                                 pack(static_cast<std::size_t>(begin + i), destination + i * layout_.bytes);
                             });
                           });
}

}  // namespace moetune
