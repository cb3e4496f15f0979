// Reads a safetensors header. Format: https://huggingface.co/docs/safetensors (8 bytes little-endian header
// length, JSON, data). The checks follow the format's own rules: offsets inside the data, sizes that match,
// no overlap, no holes.
#include "engine/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/facts/error.h"
#include "engine/strict_json.h"

namespace moetune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and tensors are used in place");

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kLargestHeader = 100'000'000;  // the format's own limit, against absurd allocations
constexpr std::string_view kReadTypes = "F32, F16, BF16, I32";

struct Span {
  std::string name;
  std::int64_t begin = 0;  // from the start of the data
  std::int64_t end = 0;
};

// Bits of an element for every type the format knows; nullopt for names it does not know.
std::optional<std::int64_t> bits_of(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::int64_t> kBits[] = {
      {"F32", 32},    {"F16", 16},    {"BF16", 16},       {"I32", 32},       {"U32", 32}, {"F64", 64},
      {"I64", 64},    {"U64", 64},    {"I16", 16},        {"U16", 16},       {"I8", 8},   {"U8", 8},
      {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},    {"C64", 64}, {"F4", 4},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
  const auto* const found =
      std::ranges::find(kBits, dtype, &std::pair<std::string_view, std::int64_t>::first);
  if (found == std::end(kBits)) return std::nullopt;
  return found->second;
}

std::optional<NumberType> type_we_read(std::string_view dtype) {
  if (dtype == "F32") return NumberType::f32;
  if (dtype == "F16") return NumberType::f16;
  if (dtype == "BF16") return NumberType::bf16;
  if (dtype == "I32") return NumberType::i32;
  return std::nullopt;
}

std::int64_t natural_number(const nlohmann::json& value, const std::string& where, const char* what) {
  constexpr auto kLargest = static_cast<std::uint64_t>(INT64_MAX);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargest) {
    throw InputError(where, fmt::format("{} is {}", what, shown(value)), "an integer, 0 or more");
  }
  return value.get<std::int64_t>();
}

const nlohmann::json& member(const nlohmann::json& entry, const char* name, const std::string& where) {
  const auto found = entry.find(name);
  if (found == entry.end())
    throw InputError(where, fmt::format("no \"{}\"", name), "dtype, shape, data_offsets");
  return *found;
}

std::vector<std::int64_t> read_shape(const nlohmann::json& value, const std::string& where) {
  if (!value.is_array())
    throw InputError(where, fmt::format("shape is {}", shown(value)), "an array of integers");
  std::vector<std::int64_t> shape;
  for (const auto& dim : value) shape.push_back(natural_number(dim, where, "a dimension of the shape"));
  return shape;
}

// Bytes of a tensor of this shape; the multiplications must not wrap round, or a huge shape would look small.
std::int64_t bytes_of_shape(const std::vector<std::int64_t>& shape, std::int64_t bits,
                            const std::string& where) {
  std::int64_t total_bits = bits;
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(total_bits, dim, &total_bits)) {
      throw InputError(
          where, fmt::format("shape [{}] has more elements than fit in memory", fmt::join(shape, ", ")), "");
    }
  }
  if (total_bits % 8 != 0) {
    throw InputError(where, fmt::format("shape [{}] does not fill whole bytes", fmt::join(shape, ", ")), "");
  }
  return total_bits / 8;
}

Span read_offsets(const nlohmann::json& value, std::int64_t data_bytes, const std::string& where) {
  if (!value.is_array() || value.size() != 2) {
    throw InputError(where, fmt::format("data_offsets is {}", shown(value)), "[begin, end]");
  }
  Span span;
  span.begin = natural_number(value[0], where, "the begin of data_offsets");
  span.end = natural_number(value[1], where, "the end of data_offsets");
  if (span.begin > span.end || span.end > data_bytes) {
    throw InputError(where,
                     fmt::format("data_offsets [{}, {}] lie outside the file's {} bytes of data", span.begin,
                                 span.end, data_bytes),
                     "begin <= end <= bytes of data; is the file truncated?");
  }
  return span;
}

// Tensors must lie one after the other and fill the data: an overlap lets one tensor change another, a hole
// hides bytes.
void check_layout(std::vector<Span> spans, std::int64_t data_bytes, const std::string& where) {
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t reached = 0;
  std::string before = "the header";
  for (const Span& span : spans) {
    if (span.begin < reached) {
      throw InputError(where + ": " + shown_key(span.name),
                       fmt::format("begins at byte {} of the data and overlaps {}, which ends at {}",
                                   span.begin, before, reached),
                       "tensors one after the other");
    }
    if (span.begin > reached) {
      throw InputError(where + ": " + shown_key(span.name),
                       fmt::format("begins at byte {} of the data, a hole of {} bytes after {}", span.begin,
                                   span.begin - reached, before),
                       "tensors one after the other, without holes");
    }
    reached = span.end;
    before = shown_key(span.name);
  }
  if (reached != data_bytes) {
    throw InputError(where,
                     fmt::format("{} bytes after the last tensor belong to none", data_bytes - reached),
                     "a file that ends with its last tensor");
  }
}

// The JSON text of the header, after checking the length that the file claims for it.
std::string_view header_text(std::span<const std::byte> file_start, std::int64_t file_bytes,
                             const std::string& where) {
  if (file_bytes < kLengthBytes || file_start.size() < kLengthBytes) {
    throw InputError(where, fmt::format("only {} bytes long", file_bytes),
                     "a safetensors file: 8 bytes of header length, header, data");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file_start.data(), sizeof length);
  if (length > static_cast<std::uint64_t>(kLargestHeader)) {
    throw InputError(where, fmt::format("claims a header of {} bytes", length),
                     fmt::format("at most {}", kLargestHeader));
  }
  if (static_cast<std::int64_t>(length) > file_bytes - kLengthBytes ||
      length > file_start.size() - static_cast<std::uint64_t>(kLengthBytes)) {
    throw InputError(where, fmt::format("claims a header of {} bytes in a file of {}", length, file_bytes),
                     "a complete file; is it truncated?");
  }
  return {reinterpret_cast<const char*>(file_start.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_start, std::int64_t file_bytes,
                                           const std::string& where) {
  const std::string_view text = header_text(file_start, file_bytes, where);
  const nlohmann::json root = parse_strict_json(text, where);
  if (!root.is_object()) throw InputError(where, "the header is " + shown(root), "a JSON object");
  const std::int64_t data_begin = kLengthBytes + static_cast<std::int64_t>(text.size());
  const std::int64_t data_bytes = file_bytes - data_begin;

  SafetensorsHeader header;
  std::vector<Span> spans;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") continue;
    const std::string here = fmt::format("{}: {}", where, shown_key(name));
    if (!entry.is_object())
      throw InputError(here, "is " + shown(entry), "an object with dtype, shape, data_offsets");
    const nlohmann::json& dtype = member(entry, "dtype", here);
    if (!dtype.is_string()) throw InputError(here, "dtype is " + shown(dtype), std::string(kReadTypes));
    const auto& dtype_name = dtype.get_ref<const std::string&>();
    const std::vector<std::int64_t> shape = read_shape(member(entry, "shape", here), here);
    Span span = read_offsets(member(entry, "data_offsets", here), data_bytes, here);
    const std::int64_t bytes = span.end - span.begin;
    if (const auto bits = bits_of(dtype_name)) {
      const std::int64_t needed = bytes_of_shape(shape, *bits, here);
      if (needed != bytes) {
        throw InputError(here,
                         fmt::format("data_offsets cover {} bytes, {} of shape [{}] need {}", bytes,
                                     dtype_name, fmt::join(shape, ", "), needed),
                         "data_offsets that match dtype and shape");
      }
    }
    if (const auto type = type_we_read(dtype_name)) {
      header.tensors.emplace(name, SafetensorsEntry{*type, shape, data_begin + span.begin, bytes});
    } else {
      header.unreadable.emplace(name, dtype_name);
    }
    span.name = name;
    spans.push_back(std::move(span));
  }
  check_layout(std::move(spans), data_bytes, where);
  return header;
}

}  // namespace moetune
