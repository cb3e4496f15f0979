#include "engine/expert_store.h"

#include <fmt/format.h>

namespace moetune {
namespace {

// Packing one expert is work for one thread: experts run side by side on the caller's pool.
Cpu& single_thread() {
  static Cpu cpu(1);
  return cpu;
}

StoredMatrix stored(const Checkpoint::Matrix& matrix, int layer, int expert, const char* what) {
  return {.name = fmt::format("{} of expert {} in layer {}", what, expert, layer),
          .extent = matrix.extent,
          .type = matrix.view.type(),
          .out = matrix.view.dim(0),
          .in = matrix.view.dim(1)};
}

}  // namespace

ExpertStore::ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard,
                         const ExpertLayout& layout)
    : checkpoint_(std::move(checkpoint)),
      shard_(shard),
      layout_(layout),
      inner_(shard.expert_inner(checkpoint_->spec())) {
  const ModelSpec& spec = checkpoint_->spec();
  for (int layer = 0; layer < spec.layers; ++layer) {
    if (!spec.moe_layers[static_cast<std::size_t>(layer)]) continue;
    for (int expert = 0; expert < spec.experts; ++expert) {
      const Checkpoint::Expert found = checkpoint_->expert(layer, expert);
      sources_.push_back({stored(found.gate, layer, expert, "gate"), stored(found.up, layer, expert, "up"),
                          stored(found.down, layer, expert, "down")});
    }
  }
}

void ExpertStore::load(int moe_layer, int expert, void* destination) const {
  const std::int64_t index = std::int64_t{moe_layer} * checkpoint_->spec().experts + expert;
  if (spill_)
    spill_->read(index, destination);
  else
    pack(static_cast<std::size_t>(index), destination);
}

void ExpertStore::pack(std::size_t index, void* destination) const {
  const Source& source = sources_[index];
  const Slice hidden{0, source.down.out};
  const NumberType type = layout_.gate.type;
  const Packing packing = layout_.gate.packing;
  auto* bytes = static_cast<std::byte*>(destination);
  read_matrix(files_, single_thread(), source.gate, {type, inner_, hidden, packing}, bytes);
  read_matrix(files_, single_thread(), source.up, {type, inner_, hidden, packing}, bytes + layout_.up_offset);
  read_matrix(files_, single_thread(), source.down, {type, hidden, inner_, packing},
              bytes + layout_.down_offset);
}

void ExpertStore::keep_outside(ParallelPool& pool) {
  const bool is_quantized = layout_.gate.scales_per_row > 0;
  if (spill_ || !is_quantized) return;
  const SpillContents contents{.model_hash = checkpoint_->spec().content_hash,
                               .number_type = std::string(name_of(layout_.gate.type)),
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
