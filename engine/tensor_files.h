// The safetensors files of one checkpoint directory and which tensor lies in which: a single
// model.safetensors, or the shards that model.safetensors.index.json lists. Start at TensorFiles.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/mapped_file.h"
#include "engine/safetensors.h"

namespace moetune {

struct StoredTensor {
  const MappedFile* file = nullptr;
  SafetensorsEntry entry;
};

struct TensorFiles {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> unreadable;  // name -> "dtype F64 in model.safetensors"
};

// Opens the files and reads their headers. Throws InputError naming file and tensor: nothing there, a shard
// missing or with a path for a name, an index that does not say what the shards hold, a tensor in two shards.
TensorFiles open_tensor_files(const std::string& directory);

}  // namespace moetune
