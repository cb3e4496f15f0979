#include "tuner/targets/reference_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "engine/cache_folder.h"
#include "tuner/checksum.h"
#include "tuner/durable_file.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// Numbers of one machine, read by the same machine: as they lie in memory.
struct FileHeader {
  char magic[24] = "moetune reference 1\n";
  ReferenceShape shape;
  std::uint32_t payload_crc = 0;
  std::uint32_t header_crc = 0;  // of everything above
};
static_assert(sizeof(FileHeader) == 64);

std::size_t payload_bytes(const ReferenceShape& shape) {
  return static_cast<std::size_t>(shape.positions * (shape.vocabulary + 2 * shape.moe_layers * shape.k)) *
         sizeof(float);
}

std::size_t image_bytes(const ReferenceShape& shape) { return sizeof(FileHeader) + payload_bytes(shape); }

std::string_view payload_of(const std::byte* image, const ReferenceShape& shape) {
  return {reinterpret_cast<const char*>(image) + sizeof(FileHeader), payload_bytes(shape)};
}

std::uint32_t header_crc(const FileHeader& header) {
  return crc32({reinterpret_cast<const char*>(&header), offsetof(FileHeader, header_crc)});
}

// The whole file, mapped privately; empty when it cannot be or has another length.
std::shared_ptr<std::byte> map_file(const std::string& file, std::size_t bytes) {
  const Descriptor descriptor = open_file(file, O_RDONLY);
  struct stat status = {};
  if (!descriptor.is_open() || fstat(descriptor.number(), &status) != 0) return nullptr;
  if (static_cast<std::size_t>(status.st_size) != bytes) return nullptr;
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.number(), 0);
  if (start == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(start), [bytes](std::byte* mapped) { munmap(mapped, bytes); }};
}

ReferenceGroup group_over(std::shared_ptr<std::byte> image, const ReferenceShape& shape) {
  const auto logits = static_cast<std::size_t>(shape.positions * shape.vocabulary);
  const auto routed = static_cast<std::size_t>(shape.positions * shape.moe_layers * shape.k);
  std::byte* payload = image.get() + sizeof(FileHeader);
  ReferenceGroup group;
  group.shape = shape;
  group.logits = {reinterpret_cast<float*>(payload), logits};
  group.expert_ids = {reinterpret_cast<std::int32_t*>(payload + logits * sizeof(float)), routed};
  group.expert_weights = {reinterpret_cast<float*>(payload + (logits + routed) * sizeof(float)), routed};
  group.image = std::move(image);
  return group;
}

}  // namespace

ReferenceGroup ReferenceGroup::blank(const ReferenceShape& shape) {
  const std::size_t bytes = image_bytes(shape);
  std::shared_ptr<std::byte> image(static_cast<std::byte*>(std::calloc(bytes, 1)),
                                   [](std::byte* memory) { std::free(memory); });
  if (!image) throw std::bad_alloc();
  return group_over(std::move(image), shape);
}

ReferenceStore::ReferenceStore(std::string folder) : folder_(std::move(folder)) {}

std::string ReferenceStore::default_folder() {
  const std::filesystem::path cache = cache_folder();
  return cache.empty() ? "" : (cache / "reference").string();
}

std::optional<ReferenceGroup> ReferenceStore::read(const std::string& key,
                                                   const ReferenceShape& expected) const {
  if (folder_.empty()) return std::nullopt;
  const std::string file = file_of(key);
  const std::shared_ptr<std::byte> image = map_file(file, image_bytes(expected));
  if (!image) return std::nullopt;
  FileHeader header;
  std::memcpy(&header, image.get(), sizeof header);
  const bool intact = std::memcmp(header.magic, FileHeader{}.magic, sizeof header.magic) == 0 &&
                      header.header_crc == header_crc(header) && header.shape == expected &&
                      header.payload_crc == crc32(payload_of(image.get(), expected));
  if (!intact) return std::nullopt;
  std::error_code ignored;  // only the order in which files leave depends on it
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  return group_over(image, expected);
}

std::string ReferenceStore::write(const std::string& key, const ReferenceGroup& group) const {
  if (folder_.empty()) return "neither XDG_CACHE_HOME nor HOME names a folder for it";
  try {
    fs::create_directories(folder_);
    make_room(static_cast<std::int64_t>(image_bytes(group.shape)));
    FileHeader header;
    header.shape = group.shape;
    header.payload_crc = crc32(payload_of(group.image.get(), group.shape));
    header.header_crc = header_crc(header);
    std::memcpy(group.image.get(), &header, sizeof header);
    write_file_atomically(file_of(key),
                          {reinterpret_cast<const char*>(group.image.get()), image_bytes(group.shape)});
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

void ReferenceStore::make_room(std::int64_t bytes) const {
  struct StoredFile {
    fs::file_time_type used;
    fs::path path;
    std::int64_t bytes;
  };
  std::vector<StoredFile> files;
  std::int64_t total = bytes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".bin") continue;
    files.push_back({entry.last_write_time(), entry.path(), static_cast<std::int64_t>(entry.file_size())});
    total += files.back().bytes;
  }
  std::ranges::sort(files, {}, &StoredFile::used);
  for (const StoredFile& file : files) {
    if (total <= capacity_bytes) break;
    fs::remove(file.path);
    total -= file.bytes;
  }
}

}  // namespace moetune
