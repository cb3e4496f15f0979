// validate tells the kinds of files apart by how they begin, whatever they are called.
#include "tuner/commands/file_kind.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

FileKind kind_of(const std::string& text, const std::string& name) {
  return kind_from(text, static_cast<std::int64_t>(text.size()), name);
}

TEST(FileKind, GoesByTheFirstBytes) {
  const std::string header = R"({"samples":1,"model":"tiny-moe"})";
  EXPECT_EQ(kind_of(header + "\n{\"process\":1}\n", "raw.jsonl"), FileKind::samples);
  EXPECT_EQ(kind_of(header, "raw.txt"), FileKind::samples);
  EXPECT_EQ(kind_of("{\"trial\":0}\n", "trials.jsonl"), FileKind::trial_log);
  EXPECT_EQ(kind_of("", "trials.jsonl"), FileKind::trial_log);
  EXPECT_EQ(kind_of("{\n \"samples\": 1}", "space.json"), FileKind::json);
  EXPECT_EQ(kind_of("\x93NUMPY\x01", "x.npy"), FileKind::numpy);
  const std::string safetensors = std::string("\x02\0\0\0\0\0\0\0", 8) + "{}";
  EXPECT_EQ(kind_of(safetensors, "one.trace"), FileKind::safetensors);
  EXPECT_EQ(kind_of(safetensors.substr(0, 9), "one.trace"), FileKind::json) << "its header does not fit";
}

}  // namespace
}  // namespace moetune
