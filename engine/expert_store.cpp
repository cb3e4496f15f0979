#include "engine/expert_store.h"

#include <unistd.h>

#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "engine/file_reading.h"
#include "engine/matrix_packing.h"

namespace moetune {
namespace {

// Packing one expert is work for one thread: experts run side by side on the caller's pool.
Cpu& single_thread() {
  static Cpu cpu(1);
  return cpu;
}

Slice whole(std::int64_t count) { return {0, count}; }

std::vector<int> routed_layers(const ModelSpec& spec) {
  std::vector<int> layers;
  for (int layer = 0; layer < spec.layers; ++layer)
    if (spec.moe_layers[static_cast<std::size_t>(layer)]) layers.push_back(layer);
  return layers;
}

std::string place(int layer, int expert, const char* matrix) {
  return fmt::format("{} of expert {} in layer {}", matrix, expert, layer);
}

}  // namespace

ExpertStore::ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard, const ExpertLayout& layout)
    : checkpoint_(std::move(checkpoint)),
      shard_(shard),
      layout_(layout),
      layers_(routed_layers(checkpoint_->spec())),
      inner_(shard.expert_inner(checkpoint_->spec())) {}

ExpertStore::~ExpertStore() {
  for (const auto& [path, descriptor] : files_) ::close(descriptor);
}

void ExpertStore::pack(int moe_layer, int expert, void* destination) const {
  const int layer = layers_[static_cast<std::size_t>(moe_layer)];
  const Checkpoint::Expert source = checkpoint_->expert(layer, expert);
  const Slice hidden = whole(checkpoint_->spec().hidden);
  const NumberType type = layout_.gate.type;
  auto* bytes = static_cast<std::byte*>(destination);
  Cpu& cpu = single_thread();
  pack_matrix(cpu, source.gate.view, {type, inner_, hidden}, bytes, place(layer, expert, "gate"));
  pack_matrix(cpu, source.up.view, {type, inner_, hidden}, bytes + layout_.up_offset, place(layer, expert, "up"));
  pack_matrix(cpu, source.down.view, {type, hidden, inner_}, bytes + layout_.down_offset, place(layer, expert, "down"));
  for (const Checkpoint::Matrix* matrix : {&source.gate, &source.up, &source.down}) drop_mapped_pages(matrix->view);
}

void ExpertStore::open_for_reading(ParallelPool& pool) {
  if (is_open_for_reading()) return;
  const ModelSpec& spec = checkpoint_->spec();
  const NumberType type = layout_.gate.type;
  const bool is_quantized = layout_.gate.scales_per_row > 0;
  if (is_quantized) {
    const SpillContents contents{.model_hash = spec.content_hash,
                                 .number_type = std::string(name_of(type)),
                                 .rank = shard_.rank,
                                 .ranks = shard_.ranks,
                                 .experts = std::int64_t{moe_layers()} * spec.experts,
                                 .expert_bytes = layout_.bytes};
    spill_ = open_spill_file(spill_directory(), contents, [&](std::int64_t begin, std::int64_t count, std::byte* destination) {
      pool.parallel_for(count, 1, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i)
          pack(static_cast<int>((begin + i) / spec.experts), static_cast<int>((begin + i) % spec.experts),
               destination + i * layout_.bytes);
      });
    });
    return;
  }
  for (const int layer : layers_)
    for (int expert = 0; expert < spec.experts; ++expert) {
      const Checkpoint::Expert source = checkpoint_->expert(layer, expert);
      for (const Checkpoint::Matrix* matrix : {&source.gate, &source.up, &source.down})
        if (!files_.contains(matrix->extent.file)) files_[matrix->extent.file] = moetune::open_for_reading(matrix->extent.file);
    }
}

void ExpertStore::read(int moe_layer, int expert, void* destination) const {
  assert(is_open_for_reading());
  const ModelSpec& spec = checkpoint_->spec();
  if (spill_) return spill_->read(std::int64_t{moe_layer} * spec.experts + expert, destination);
  const Checkpoint::Expert source = checkpoint_->expert(layers_[static_cast<std::size_t>(moe_layer)], expert);
  auto* bytes = static_cast<std::byte*>(destination);
  read_matrix(source.gate, inner_, whole(spec.hidden), layout_.gate, bytes);
  read_matrix(source.up, inner_, whole(spec.hidden), layout_.up, bytes + layout_.up_offset);
  read_matrix(source.down, whole(spec.hidden), inner_, layout_.down, bytes + layout_.down_offset);
}

void ExpertStore::read_matrix(const Checkpoint::Matrix& source, const Slice& rows, const Slice& columns,
                              const MatrixLayout& layout, std::byte* destination) const {
  const int descriptor = files_.at(source.extent.file);
  const NumberType type = source.view.type();
  const std::int64_t width = source.view.dim(1);
  const std::int64_t row_bytes = width * element_bytes(type);
  const std::int64_t offset = source.extent.offset + rows.begin * row_bytes;
  const bool same_bytes = type == layout.type && columns.count == width && layout.row_bytes == row_bytes;
  if (same_bytes) return read_range(descriptor, source.extent.file, offset, destination, rows.count * row_bytes);

  thread_local std::vector<std::byte> staging;
  staging.resize(static_cast<std::size_t>(rows.count * row_bytes));
  read_range(descriptor, source.extent.file, offset, staging.data(), rows.count * row_bytes);
  pack_matrix(single_thread(), Tensor(staging.data(), type, {rows.count, width}), {layout.type, {0, rows.count}, columns}, destination,
              source.extent.file);
}

std::int64_t ExpertStore::outside_bytes() const {
  return is_open_for_reading() ? std::int64_t{moe_layers()} * checkpoint_->spec().experts * layout_.bytes : 0;
}

}  // namespace moetune
