// A file of packed experts, written once per model, number type and rank slice, and kept between runs. Its
// name and its header say what it holds; a file that does not match is written again. Start at
// open_spill_file().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace moetune {

// What a spill file holds; two files with equal contents are interchangeable.
struct SpillContents {
  std::string model_hash;  // ModelSpec::content_hash
  std::string number_type;
  int rank = 0;
  int ranks = 1;
  std::int64_t experts = 0;       // over all layers
  std::int64_t expert_bytes = 0;  // of one packed expert
};

class SpillFile {
 public:
  SpillFile(std::string path, int descriptor, const SpillContents& contents);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Reads expert `index` (of all layers) into contents.expert_bytes bytes. Thread-safe. Throws
  // std::runtime_error naming the file when it can no longer be read.
  void read(std::int64_t index, void* destination) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
  SpillContents contents_;
};

// Folder of spill files: $XDG_CACHE_HOME/moetune, else ~/.cache/moetune, else the temporary directory's
// moetune.
std::string spill_directory();

// Packs experts [begin, begin + count) of all layers one behind the other into `destination`.
using PackExperts = std::function<void(std::int64_t begin, std::int64_t count, std::byte* destination)>;

// Opens the file in `directory` that holds `contents`; writes it first when there is none or it does not
// match. It is written under a name of its own, flushed to disk and renamed, so that a killed writer leaves
// no half file behind under the final name. Throws std::runtime_error naming file and reason (a full disk, no
// permission).
std::unique_ptr<SpillFile> open_spill_file(const std::string& directory, const SpillContents& contents,
                                           const PackExperts& pack);

}  // namespace moetune
