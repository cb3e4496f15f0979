// The content hash of a checkpoint: config.json and every tensor's name, type, shape and bytes, in the order
// of their names, wherever they lie (one file or shards give the same hash).
#pragma once

#include <cstdint>
#include <string>

#include "engine/tensor_files.h"

namespace moetune {

// Checkpoints up to this size are hashed byte for byte. Of larger ones four places of each tensor are read
// instead of all of it: a worker that opens hundreds of gigabytes must not read them all to learn which model
// it has.
inline constexpr std::int64_t kHashedWholeBytes = std::int64_t{4} << 30;

// 32 hex digits. Throws InputError when a file has become shorter.
std::string checkpoint_hash(const std::string& config_text, const TensorFiles& files,
                            std::int64_t hashed_whole_bytes = kHashedWholeBytes);

}  // namespace moetune
