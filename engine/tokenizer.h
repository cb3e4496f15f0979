// Where tokens come from. A byte tokenizer (tokenizer_config.json says "ByteTokenizer": id = byte) reads real
// text; other vocabularies get seeded token ids, and whoever prints results says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint.h"

namespace moetune {

struct TokenSource {
  bool from_text = false;   // false: seeded ids, said in every output
  std::string description;  // "calibration.txt, bytes" or "seeded ids, no tokenizer"
  std::vector<std::int32_t> ids;

  // Length tokens; windows 0, 1, 2 ... follow one another, wrap round the end and start at different places
  // for any ids.size() consecutive numbers.
  std::vector<std::int32_t> window(std::uint64_t number, std::int64_t length) const;
};

// The calibration tokens of a checkpoint. calibration_file when it is not empty: text for a byte tokenizer,
// token ids in digits for other vocabularies. Without one: calibration.txt in the checkpoint's directory when
// it has a byte tokenizer, else `count` seeded ids with a Zipf-like spread over the vocabulary. Throws
// InputError for files that cannot be read, are empty or hold what is no token.
TokenSource calibration_tokens(const Checkpoint& checkpoint, const std::string& calibration_file,
                               std::int64_t count);

}  // namespace moetune
