#include "engine/tensor_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/strict_json.h"

namespace moetune {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::int64_t kLargestIndex = 100'000'000;

// The header is read, not looked at through the mapping: the file may shrink between the two.
SafetensorsHeader read_header(const MappedFile& file) {
  constexpr std::int64_t kLengthBytes = 8;
  std::vector<std::byte> start(static_cast<std::size_t>(std::min(file.bytes(), kLengthBytes)));
  file.read(0, start);
  if (file.bytes() > kLengthBytes) {
    std::uint64_t claimed = 0;
    std::memcpy(&claimed, start.data(), sizeof claimed);
    // A claim beyond the file or beyond the format's limit is left to the parser to refuse; nothing is
    // allocated for it.
    const auto available = static_cast<std::uint64_t>(file.bytes() - kLengthBytes);
    if (claimed <= available && claimed <= static_cast<std::uint64_t>(kLargestIndex)) {
      start.resize(static_cast<std::size_t>(kLengthBytes) + static_cast<std::size_t>(claimed));
      file.read(0, start);
    }
  }
  return parse_safetensors_header(start, file.bytes(), file.path());
}

void add_file(const std::string& path, TensorFiles& all) {
  all.files.push_back(std::make_unique<MappedFile>(path));
  const MappedFile* const file = all.files.back().get();
  SafetensorsHeader header = read_header(*file);
  for (auto& [name, entry] : header.tensors) {
    const auto [place, is_new] = all.tensors.try_emplace(name, StoredTensor{file, std::move(entry)});
    if (!is_new)
      throw InputError(fmt::format("{}: {}", path, shown_key(name)),
                       fmt::format("is in {} as well", place->second.file->path()),
                       "each tensor in one shard");
  }
  for (auto& [name, dtype] : header.unreadable)
    all.unreadable.emplace(name, fmt::format("dtype {} in {}", dtype, path));
}

bool exists(const std::string& path) {
  std::error_code unreadable;  // a name too long or a folder without permission counts as not there
  return std::filesystem::exists(path, unreadable);
}

// A shard is a file beside the index, never a path that leads elsewhere.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
}

// weight_map of the index: tensor name -> shard.
std::map<std::string, std::string> read_weight_map(const std::string& path) {
  const nlohmann::json index = parse_strict_json(read_text_file(path, kLargestIndex), path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    throw InputError(path + ": weight_map", "missing or empty", "an object: tensor name -> shard file");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get<std::string>())) {
      throw InputError(fmt::format("{}: weight_map: {}", path, shown_key(name)), shown(shard),
                       "the name of a file in the same directory");
    }
    shard_of.emplace(name, shard.get<std::string>());
  }
  return shard_of;
}

void open_shards(const std::string& directory, const std::string& index_path, TensorFiles& all) {
  const std::map<std::string, std::string> shard_of = read_weight_map(index_path);
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    const std::string path = fmt::format("{}/{}", directory, shard);
    if (!exists(path))
      throw InputError(index_path, fmt::format("names {}, which is missing", shown_key(shard)),
                       "all shards in one directory");
    add_file(path, all);
  }
  for (const auto& [name, shard] : shard_of) {
    if (all.unreadable.contains(name)) continue;
    const auto stored = all.tensors.find(name);
    if (stored == all.tensors.end() ||
        stored->second.file->path() != fmt::format("{}/{}", directory, shard)) {
      throw InputError(fmt::format("{}: weight_map: {}", index_path, shown_key(name)),
                       fmt::format("says {}, which {}", shown_key(shard),
                                   stored == all.tensors.end() ? "does not hold it" : "is not where it is"),
                       "the shard that holds the tensor");
    }
  }
  for (const auto& [name, stored] : all.tensors) {
    if (!shard_of.contains(name))
      throw InputError(fmt::format("{}: {}", stored.file->path(), shown_key(name)),
                       fmt::format("not in the weight_map of {}", index_path), "an index of all tensors");
  }
}

}  // namespace

TensorFiles open_tensor_files(const std::string& directory) {
  TensorFiles all;
  const std::string single = directory + "/" + kSingleFile;
  const std::string index = directory + "/" + kIndexFile;
  if (exists(single)) {
    add_file(single, all);  // transformers prefers the single file too when both are there
  } else if (exists(index)) {
    open_shards(directory, index, all);
  } else {
    throw InputError(directory, "no weights",
                     fmt::format("{} or {} with its shards", kSingleFile, kIndexFile));
  }
  return all;
}

}  // namespace moetune
