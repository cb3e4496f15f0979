// Where routed experts come from: the checkpoint's own bytes, or, for experts we quantize, a spill file written once.
// Start at pack() (whole experts from the mapped checkpoint, while loading) and read() (one expert on demand).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/shard.h"
#include "engine/spill_file.h"
#include "kernels/device.h"
#include "kernels/weight_matrix.h"

namespace moetune {

class ExpertStore {
 public:
  // layout: of the part of an expert that this rank keeps, in its number type.
  ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, const Shard& shard, const ExpertLayout& layout);
  ~ExpertStore();
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  const ExpertLayout& layout() const { return layout_; }
  int moe_layers() const { return static_cast<int>(layers_.size()); }

  // Packs an expert from the mapped checkpoint into layout().bytes bytes, and gives its mapped pages back.
  // moe_layer counts only the layers that route. Thread-safe. Throws InputError naming a weight that cannot be packed.
  void pack(int moe_layer, int expert, void* destination) const;

  // Prepares for read(): opens the checkpoint's files, or finds or writes the spill file (pool: quantizes in parallel).
  // Throws std::runtime_error when files cannot be opened or written, such as on a full disk.
  void open_for_reading(ParallelPool& pool);
  bool is_open_for_reading() const { return spill_ != nullptr || !files_.empty(); }

  // Reads one expert from disk into layout().bytes bytes without the mapping. Thread-safe. Throws std::runtime_error.
  void read(int moe_layer, int expert, void* destination) const;

  // Bytes kept outside the cache for read(): the experts in the form that is read.
  std::int64_t outside_bytes() const;

 private:
  void read_matrix(const Checkpoint::Matrix& source, const Slice& rows, const Slice& columns, const MatrixLayout& layout,
                   std::byte* destination) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  Shard shard_;
  ExpertLayout layout_;
  std::vector<int> layers_;            // of the model, that route
  Slice inner_;                        // of an expert's inner width, on this rank
  std::map<std::string, int> files_;   // descriptors of the checkpoint's files
  std::unique_ptr<SpillFile> spill_;
};

}  // namespace moetune
