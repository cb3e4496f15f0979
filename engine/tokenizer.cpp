#include "engine/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/mapped_file.h"
#include "engine/strict_json.h"
#include "kernels/philox.h"

namespace moetune {
namespace {

constexpr std::int64_t kLargestText = std::int64_t{1} << 30;
constexpr std::int64_t kLargestTokenizerConfig = 16'000'000;
constexpr std::uint64_t kSeed = 1;  // of the ids of models without a tokenizer: the same text for everybody

// Smallest number from `at_least` on that has no factor in common with `modulus`: multiples of it meet every
// residue once.
std::uint64_t coprime_from(std::uint64_t at_least, std::uint64_t modulus) {
  std::uint64_t candidate = std::max<std::uint64_t>(at_least, 1);
  while (std::gcd(candidate, modulus) != 1) ++candidate;
  return candidate;
}

bool has_byte_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.spec().is_synthetic) return false;
  const std::string path = checkpoint.directory() + "/tokenizer_config.json";
  if (!std::filesystem::exists(path)) return false;
  const nlohmann::json config = parse_strict_json(read_text_file(path, kLargestTokenizerConfig), path);
  if (!config.is_object()) throw InputError(path, "is " + shown(config), "a JSON object");
  return config.contains("tokenizer_class") && config["tokenizer_class"] == "ByteTokenizer";
}

std::vector<std::int32_t> bytes_as_ids(const std::string& text, int vocabulary, const std::string& path) {
  std::vector<std::int32_t> ids(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    ids[at] = static_cast<unsigned char>(text[at]);
    if (ids[at] >= vocabulary) {
      throw InputError(path, fmt::format("byte {} at {}", ids[at], at),
                       fmt::format("bytes below the vocabulary of {}", vocabulary));
    }
  }
  return ids;
}

// Token ids written in digits, separated by commas or white space.
std::vector<std::int32_t> written_ids(const std::string& text, int vocabulary, const std::string& path) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  const std::string accepted =
      fmt::format("token ids from 0 to {}, separated by commas or white space", vocabulary - 1);
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && kSeparators.find(*at) != std::string_view::npos) ++at;
    if (at == end) return ids;
    const char* const word_end =
        std::find_if(at, end, [&](char c) { return kSeparators.find(c) != std::string_view::npos; });
    std::int32_t id = 0;
    const auto [stopped, problem] = std::from_chars(at, word_end, id);
    if (problem != std::errc{} || stopped != word_end || id < 0 || id >= vocabulary) {
      const auto length = std::min<std::ptrdiff_t>(word_end - at, 40);
      throw InputError(
          path, fmt::format("token {} is {}", ids.size() + 1, shown(std::string(at, at + length))), accepted);
    }
    ids.push_back(id);
    at = word_end;
  }
}

// Log-uniform ranks are Zipf's law with exponent 1; a fixed permutation spreads the frequent ranks over the
// vocabulary.
std::vector<std::int32_t> seeded_ids(int vocabulary, std::int64_t count) {
  const auto size = static_cast<std::uint64_t>(vocabulary);
  const std::uint64_t stride = coprime_from(size * 61 / 100, size);
  const double log_size = std::log(static_cast<double>(vocabulary) + 1.0);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const auto draw =
        philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}, kSeed)[0];
    const double uniform = static_cast<double>(draw) / 4294967296.0;  // 2^32
    const auto rank = std::min(static_cast<std::uint64_t>(std::exp(uniform * log_size)) - 1, size - 1);
    ids[at] = static_cast<std::int32_t>(rank * stride % size);
  }
  return ids;
}

}  // namespace

std::vector<std::int32_t> TokenSource::window(std::uint64_t number, std::int64_t length) const {
  if (ids.empty()) throw InputError(description, "no tokens", "at least one");
  const std::uint64_t size = ids.size();
  // Windows follow one another; where the text is used up, the next round starts at other places.
  const std::uint64_t stride =
      coprime_from(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1)), size);
  std::uint64_t at = number % size * (stride % size) % size;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int32_t& token : tokens) {
    token = ids[at];
    at = at + 1 == size ? 0 : at + 1;
  }
  return tokens;
}

TokenSource calibration_tokens(const Checkpoint& checkpoint, const std::string& calibration_file,
                               std::int64_t count) {
  const int vocabulary = checkpoint.spec().vocabulary;
  const bool reads_bytes = has_byte_tokenizer(checkpoint);
  std::string path = calibration_file;
  if (path.empty() && reads_bytes) path = checkpoint.directory() + "/calibration.txt";

  TokenSource source;
  if (path.empty()) {
    source.ids = seeded_ids(vocabulary, count);
    source.description = "seeded ids, no tokenizer";
    return source;
  }
  const std::string text = read_text_file(path, kLargestText);
  source.ids = reads_bytes ? bytes_as_ids(text, vocabulary, path) : written_ids(text, vocabulary, path);
  source.from_text = true;
  source.description =
      std::filesystem::path(path).filename().string() + (reads_bytes ? ", bytes" : ", token ids");
  if (source.ids.empty()) throw InputError(path, "empty", "some text");
  return source;
}

}  // namespace moetune
