// Start at open_spill_file(). Layout: a header of 4096 bytes, then the experts one behind the other.
#include "engine/spill_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/cache_folder.h"
#include "engine/file_reading.h"

namespace moetune {
namespace {

constexpr int kFormat =
    1;  // counts up when the packing of experts changes, so that old files are written again
constexpr std::int64_t kHeaderBytes = 4096;
constexpr std::int64_t kBatchBytes = 64 << 20;  // packed in memory before they are written
constexpr std::string_view kPartialSuffix = ".partial";
constexpr std::time_t kAbandonedSeconds = 60;

// The header says in words what the file holds; it is compared as a whole.
std::vector<std::byte> header_of(const SpillContents& contents) {
  const std::string text =
      fmt::format("moetune experts, format {}\nmodel {}\ntype {}\nrank {} of {}\n{} experts of {} bytes\n",
                  kFormat, contents.model_hash, contents.number_type, contents.rank, contents.ranks,
                  contents.experts, contents.expert_bytes);
  std::vector<std::byte> header(kHeaderBytes);
  std::transform(text.begin(),
                 text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), header.size())),
                 header.begin(), [](char letter) { return static_cast<std::byte>(letter); });
  return header;
}

std::int64_t file_bytes_of(const SpillContents& contents) {
  return kHeaderBytes + contents.experts * contents.expert_bytes;
}

// Closes the descriptor unless it was released.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

bool matches(int descriptor, const std::string& path, const SpillContents& contents) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0 || status.st_size != file_bytes_of(contents)) return false;
  std::vector<std::byte> header(kHeaderBytes);
  read_range(descriptor, path, 0, header.data(), kHeaderBytes);
  return header == header_of(contents);
}

// A killed writer leaves its partial file behind: nobody holds its lock and nobody has written to it for a
// while.
void remove_abandoned_files(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(kPartialSuffix)) continue;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status{};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0) continue;
    if (std::time(nullptr) - status.st_mtime < kAbandonedSeconds) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

// Removes the partial file when writing it fails.
class PartialFile {
 public:
  explicit PartialFile(const std::string& final_path)
      : path_(final_path + ".XXXXXX" + std::string(kPartialSuffix)),
        file_(::mkostemps(path_.data(), static_cast<int>(kPartialSuffix.size()), O_CLOEXEC)) {
    if (file_.get() < 0) throw_file_error(path_, "cannot be created");
    ::flock(file_.get(), LOCK_EX | LOCK_NB);
  }
  ~PartialFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  int descriptor() const { return file_.get(); }
  const std::string& path() const { return path_; }

  void become(const std::string& final_path) {
    if (::fsync(file_.get()) != 0) throw_file_error(path_, "cannot be flushed to disk");
    if (::rename(path_.c_str(), final_path.c_str()) != 0)
      throw_file_error(path_, "cannot be renamed to " + final_path);
    renamed_ = true;
  }

 private:
  std::string path_;
  Descriptor file_;
  bool renamed_ = false;
};

void write_spill_file(const std::string& path, const SpillContents& contents, const PackExperts& pack) {
  PartialFile partial(path);
  const std::vector<std::byte> header = header_of(contents);
  write_range(partial.descriptor(), partial.path(), 0, header.data(), kHeaderBytes);
  const std::int64_t per_batch =
      std::clamp<std::int64_t>(kBatchBytes / contents.expert_bytes, 1, contents.experts);
  std::vector<std::byte> batch(static_cast<std::size_t>(per_batch * contents.expert_bytes));
  for (std::int64_t begin = 0; begin < contents.experts; begin += per_batch) {
    const std::int64_t count = std::min(per_batch, contents.experts - begin);
    pack(begin, count, batch.data());
    write_range(partial.descriptor(), partial.path(), kHeaderBytes + begin * contents.expert_bytes,
                batch.data(), count * contents.expert_bytes);
  }
  partial.become(path);
}

}  // namespace

SpillFile::SpillFile(std::string path, int descriptor, const SpillContents& contents)
    : path_(std::move(path)), descriptor_(descriptor), contents_(contents) {}

SpillFile::~SpillFile() { ::close(descriptor_); }

void SpillFile::read(std::int64_t index, void* destination) const {
  read_range(descriptor_, path_, kHeaderBytes + index * contents_.expert_bytes,
             static_cast<std::byte*>(destination), contents_.expert_bytes);
}

std::string spill_directory() {
  const std::filesystem::path cache = cache_folder();
  return cache.empty() ? std::filesystem::temp_directory_path() / "moetune" : cache;
}

std::unique_ptr<SpillFile> open_spill_file(const std::string& directory, const SpillContents& contents,
                                           const PackExperts& pack) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure)
    throw std::runtime_error(directory + ": cannot be created for quantized experts: " + failure.message());
  const std::string path = fmt::format("{}/{}-{}-{}of{}.experts", directory, contents.model_hash,
                                       contents.number_type, contents.rank + 1, contents.ranks);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || !matches(file.get(), path, contents)) {
    remove_abandoned_files(directory);
    write_spill_file(path, contents, pack);
    file = Descriptor(open_for_reading(path));
    if (!matches(file.get(), path, contents))
      throw std::runtime_error(path + ": is not what was just written to it");
  }
  return std::make_unique<SpillFile>(path, file.release(), contents);
}

}  // namespace moetune
