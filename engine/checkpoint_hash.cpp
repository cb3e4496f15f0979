#include "engine/checkpoint_hash.h"

#include <cstddef>
#include <span>
#include <vector>

#include "engine/content_hash.h"

namespace moetune {
namespace {

constexpr std::int64_t kSampleBytes = 4096;
constexpr std::int64_t kSamples = 4;  // both ends and two places between

void add_description(const std::string& name, const SafetensorsEntry& entry, ContentHash& hash) {
  hash.add_text(name);
  hash.add_text(name_of(entry.type));
  hash.add_number(entry.shape.size());
  for (const std::int64_t dim : entry.shape) hash.add_number(static_cast<std::uint64_t>(dim));
}

}  // namespace

std::string checkpoint_hash(const std::string& config_text, const TensorFiles& files,
                            std::int64_t hashed_whole_bytes) {
  std::int64_t total_bytes = 0;
  for (const auto& [name, stored] : files.tensors) total_bytes += stored.entry.bytes;
  const bool is_whole = total_bytes <= hashed_whole_bytes;

  ContentHash hash;
  hash.add_text(is_whole ? "whole" : "sampled");
  hash.add_text(config_text);
  const auto add = [&hash](std::span<const std::byte> piece, std::int64_t) { hash.add(piece); };
  for (const auto& [name, stored] : files.tensors) {
    const SafetensorsEntry& entry = stored.entry;
    add_description(name, entry, hash);
    if (is_whole || entry.bytes <= kSamples * kSampleBytes) {
      stored.file->read_in_pieces(entry.begin, entry.bytes, add);
      continue;
    }
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      const std::int64_t at = (entry.bytes - kSampleBytes) * sample / (kSamples - 1);
      stored.file->read_in_pieces(entry.begin + at, kSampleBytes, add);
    }
  }
  return hash.hex();
}

}  // namespace moetune
