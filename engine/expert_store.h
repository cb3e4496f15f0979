// Where routed experts come from: the checkpoint's own bytes, packed on the way, or, for experts that are
// quantized and asked for again and again, a spill file written once. Start at load().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/file_reading.h"
#include "engine/matrix_packing.h"
#include "engine/shard.h"
#include "engine/spill_file.h"
#include "kernels/device.h"
#include "kernels/weight_matrix.h"

namespace moetune {

class ExpertStore {
 public:
  // layout: of the part of an expert that this rank keeps, in its number type.
  ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard, const ExpertLayout& layout);

  const ExpertLayout& layout() const { return layout_; }

  // Brings one expert into layout().bytes bytes. moe_layer counts only the layers that route. Thread-safe.
  // Throws std::runtime_error when a file cannot be read, InputError naming a weight that does not fit the
  // number type.
  void load(int moe_layer, int expert, void* destination) const;

  // Prepares for experts being loaded many times: quantized ones get their spill file, found or written (the
  // pool quantizes in parallel). Throws std::runtime_error when it cannot be written, such as on a full disk.
  void keep_outside(ParallelPool& pool);

  // Bytes of all experts in the form they are loaded in.
  std::int64_t outside_bytes() const { return static_cast<std::int64_t>(sources_.size()) * layout_.bytes; }

 private:
  struct Source {
    StoredMatrix gate;
    StoredMatrix up;
    StoredMatrix down;
  };
  void pack(std::size_t index, void* destination) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  Shard shard_;
  ExpertLayout layout_;
  Slice inner_;                  // of an expert's inner width, on this rank
  std::vector<Source> sources_;  // experts of the first layer that routes, then of the next
  mutable FileSet files_;
  std::unique_ptr<SpillFile> spill_;
};

}  // namespace moetune
