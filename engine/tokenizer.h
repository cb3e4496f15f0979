// Where tokens come from. A byte tokenizer (tokenizer_config.json says "ByteTokenizer": id = byte) reads real text; other
// vocabularies get seeded token ids, and whoever prints results says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint.h"

namespace moetune {

struct TokenSource {
  bool from_text = false;    // false: seeded ids, said in every output
  std::string description;   // "calibration.txt, bytes" or "seeded ids, no tokenizer"
  std::vector<std::int32_t> ids;

  // Distinct windows for different numbers, wrapping round the end. Length tokens.
  std::vector<std::int32_t> window(std::uint64_t number, std::int64_t length) const;
};

// The calibration tokens of a checkpoint: calibration.txt in its directory when it has a byte tokenizer, else `count`
// seeded ids with a Zipf-like spread over the vocabulary.
TokenSource calibration_tokens(const Checkpoint& checkpoint, const std::string& calibration_file, std::int64_t count);

}  // namespace moetune
