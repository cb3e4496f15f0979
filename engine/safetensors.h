// The safetensors container: 8 bytes of header length, a JSON header, then raw tensor bytes.
// Start at parse_safetensors_header(); it trusts nothing the file says.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/number_type.h"

namespace moetune {

struct SafetensorsEntry {
  NumberType type = NumberType::f32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // offset of the first byte from the start of the file
  std::int64_t bytes = 0;
};

// file_start: at least the first 8 + header bytes of the file (all that exists of it when it is shorter).
// file_bytes: its true size. Throws InputError (where: the file's path) for truncation, lying lengths,
// overlapping or out of range tensors, sizes that do not match the shape, duplicate names. Tensors of types
// we do not read are listed under `unreadable` with their dtype, an error only when one of them is needed.
struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> unreadable;
};
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_start, std::int64_t file_bytes,
                                           const std::string& where);

}  // namespace moetune
