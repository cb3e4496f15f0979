#include "tuner/commands/file_kind.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

namespace moetune {
namespace {

constexpr std::size_t length_bytes =
    sizeof(std::uint64_t);  // a safetensors file begins with that of its header

bool is_safetensors(std::string_view begin, std::int64_t bytes) {
  if (begin.size() <= length_bytes || begin[length_bytes] != '{') return false;
  std::uint64_t length = 0;
  std::memcpy(&length, begin.data(), length_bytes);
  return length > 0 && length <= static_cast<std::uint64_t>(bytes) - length_bytes;
}

bool is_samples_header(std::string_view line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  return object.is_object() && object.contains("samples") && object["samples"].is_number();
}

}  // namespace

FileKind kind_from(std::string_view begin, std::int64_t bytes, const std::string& name) {
  if (begin.starts_with("\x93NUMPY")) return FileKind::numpy;
  if (is_safetensors(begin, bytes)) return FileKind::safetensors;
  if (is_samples_header(begin.substr(0, begin.find('\n')))) return FileKind::samples;
  return name.ends_with(".jsonl") ? FileKind::trial_log : FileKind::json;
}

FileKind file_kind(const std::string& path) {
  std::error_code failed;  // where it is gone meanwhile, which its reader will say
  if (!std::filesystem::is_regular_file(path, failed)) return kind_from({}, 0, path);
  std::array<char, 1 << 16> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  const auto bytes = std::filesystem::file_size(path, failed);
  return kind_from({begin.data(), static_cast<std::size_t>(file.gcount())},
                   failed ? 0 : static_cast<std::int64_t>(bytes), path);
}

}  // namespace moetune
