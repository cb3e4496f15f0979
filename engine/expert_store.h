// Where routed experts come from: the checkpoint's own bytes, packed on the way, the generator, or, for
// experts that cost more than a read and are asked for again and again, a spill file written once or, for a
// GPU, pinned memory. A folded model has fewer than its layers say (engine/folding.h). Start at load().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/file_reading.h"
#include "engine/matrix_source.h"
#include "engine/shard.h"
#include "engine/spill_file.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/weight_matrix.h"

namespace moetune {

class ExpertStore {
 public:
  // layout: of the part of an expert that this rank keeps, in its number type.
  ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard, const ExpertLayout& layout);

  const ExpertLayout& layout() const { return layout_; }
  // Sets of experts there are; weight_layer(): which of them a layer that routes uses.
  int weight_layers() const { return weight_layers_; }
  int weight_layer(int moe_layer) const { return moe_layer % weight_layers_; }

  // Brings one expert into layout().bytes bytes. moe_layer counts only the layers that route. Thread-safe.
  // Throws std::runtime_error when a file cannot be read, InputError naming a weight that does not fit the
  // number type.
  void load(int moe_layer, int expert, void* destination) const;

  struct Wanted {
    int moe_layer = 0;
    int expert = 0;
    std::byte* destination = nullptr;  // memory of the device
  };
  // Brings many at once, with the host's threads or, where they are generated, with the device. Throws as
  // load() does.
  void load_all(Device& device, Cpu& host, std::span<const Wanted> wanted) const;

  // Prepares for experts being loaded many times: quantized ones get their spill file, found or written (the
  // pool quantizes in parallel). Throws std::runtime_error when it cannot be written, such as on a full disk.
  void keep_outside(ParallelPool& pool);

  // The same for a GPU that reads them over the link: all experts, packed, one behind the other in memory
  // that the device reads too (pinned_pool.h). Throws std::bad_alloc.
  void keep_in_memory(Device& device, Cpu& host);
  // Expert e of set w of weights starts at in_memory() + (w * experts + e) * layout().bytes; null: not kept
  // there.
  const std::byte* in_memory() const { return in_memory_.data(); }
  // The same of one expert; only where they are kept there.
  const std::byte* in_memory(int moe_layer, int expert) const {
    return in_memory_.data() + static_cast<std::int64_t>(index_of(moe_layer, expert)) * layout_.bytes;
  }

  // Bytes of all experts in the form they are loaded in.
  std::int64_t outside_bytes() const { return static_cast<std::int64_t>(sources_.size()) * layout_.bytes; }

 private:
  std::size_t index_of(int moe_layer, int expert) const {
    return static_cast<std::size_t>(weight_layer(moe_layer)) * static_cast<std::size_t>(experts_) +
           static_cast<std::size_t>(expert);
  }
  std::array<MatrixShape, 3> shapes() const;  // gate, up, down
  void pack(std::size_t index, void* destination) const;
  void generate(Device& device, const Wanted& wanted) const;
  void load_by_way_of_host(Device& device, Cpu& host, std::span<const Wanted> wanted) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  Shard shard_;
  ExpertLayout layout_;
  Slice inner_;      // of an expert's inner width, on this rank
  int experts_ = 0;  // of a layer
  int weight_layers_ = 0;
  std::vector<ExpertSources>
      sources_;  // experts of the first layer that routes, then of the next with its own
  mutable FileSet files_;
  std::unique_ptr<SpillFile> spill_;
  SharedBuffer in_memory_;
};

}  // namespace moetune
