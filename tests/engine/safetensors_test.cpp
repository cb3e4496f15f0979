// The safetensors header: what is accepted, and a catalogue of files that lie.
#include "engine/safetensors.h"

#include <cstddef>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"

namespace moetune {
namespace {

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), static_cast<std::int64_t>(bytes.size()),
                                  "w.safetensors");
}

SafetensorsHeader parse(const std::string& header, std::size_t data_bytes) {
  return parse(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

std::string refusal(const std::string& bytes) {
  return message_of<InputError>([&] { parse(bytes); });
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  return refusal(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

TEST(Safetensors, ReadsTypesShapesAndPlaces) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"c":{"dtype":"I32","shape":[],"data_offsets":[14,18]}})";
  const SafetensorsHeader parsed = parse(header, 18);
  ASSERT_EQ(parsed.tensors.size(), 3U);
  const SafetensorsEntry& b = parsed.tensors.at("b");
  EXPECT_EQ(b.type, NumberType::bf16);
  EXPECT_EQ(b.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(b.begin, static_cast<std::int64_t>(8 + header.size() + 8));
  EXPECT_EQ(b.bytes, 6);
  EXPECT_EQ(parsed.tensors.at("a").type, NumberType::f32);
  EXPECT_EQ(parsed.tensors.at("c").type, NumberType::i32);
  EXPECT_TRUE(parsed.tensors.at("c").shape.empty());
}

TEST(Safetensors, HeaderMayEndInSpaces) {
  EXPECT_EQ(parse(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}   )", 2).tensors.size(), 1U);
}

TEST(Safetensors, AcceptsEmptyTensorsAndNoTensors) {
  EXPECT_EQ(parse(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0).tensors.at("a").bytes, 0);
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
}

TEST(Safetensors, ListsTypesItCannotReadApart) {
  const SafetensorsHeader parsed = parse(
      R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"NEW","shape":[2],"data_offsets":[2,5]}})",
      5);
  EXPECT_TRUE(parsed.tensors.empty());
  EXPECT_EQ(parsed.unreadable.at("a"), "F8_E4M3");
  EXPECT_EQ(parsed.unreadable.at("b"), "NEW");
}

TEST(Safetensors, RefusesTruncatedFiles) {
  EXPECT_TRUE(has_text(refusal(""), "w.safetensors: only 0 bytes long"));
  EXPECT_TRUE(has_text(refusal("1234567"), "only 7 bytes long"));
  const std::string whole =
      safetensors_bytes(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", std::string(16, 'x'));
  ASSERT_NO_THROW(parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(has_text(refusal(whole.substr(0, length)), "w.safetensors")) << length;
  }
  EXPECT_TRUE(has_text(refusal(whole.substr(0, whole.size() - 1)), "truncated?"));
}

TEST(Safetensors, RefusesLyingHeaderLengths) {
  std::string bytes = safetensors_bytes("{}", "");
  bytes[0] = 3;  // one more than is there
  EXPECT_TRUE(has_text(refusal(bytes), "claims a header of 3 bytes in a file of 10"));
  bytes[3] = 127;
  EXPECT_TRUE(has_text(refusal(bytes), "accepted: at most 100000000"));
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = '\xff';
  EXPECT_TRUE(has_text(refusal(bytes), "claims a header of 18446744073709551615 bytes"));
}

TEST(Safetensors, RefusesWhatIsNoJsonObject) {
  EXPECT_TRUE(has_text(refusal("", 0), "not valid JSON"));
  EXPECT_TRUE(has_text(refusal("{\"a\":", 0), "not valid JSON"));
  EXPECT_TRUE(has_text(refusal("{} {}", 0), "not valid JSON"));
  EXPECT_TRUE(has_text(refusal("{\"\xff\":1}", 0), "not valid JSON"));
  EXPECT_TRUE(has_text(refusal("[1]", 0), "the header is [1] (accepted: a JSON object)"));
  EXPECT_TRUE(has_text(refusal(std::string(100000, '['), 0), "nested deeper than 16 levels"));
}

TEST(Safetensors, RefusesDuplicateNames) {
  const std::string entry = R"("a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]})";
  EXPECT_TRUE(has_text(refusal("{" + entry + "," + entry + "}", 2), R"(key "a" stands twice)"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","dtype":"F32","shape":[1],"data_offsets":[0,2]}})", 2),
                       R"(key "dtype" stands twice)"));
}

TEST(Safetensors, RefusesIncompleteOrMistypedEntries) {
  EXPECT_TRUE(has_text(refusal(R"({"a":7})", 0),
                       "w.safetensors: a: is 7 (accepted: an object with dtype, shape, data_offsets)"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"shape":[1],"data_offsets":[0,2]}})", 2), R"(no "dtype")"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","data_offsets":[0,2]}})", 2), R"(no "shape")"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[1]}})", 2), R"(no "data_offsets")"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":16,"shape":[1],"data_offsets":[0,2]}})", 2),
                       "dtype is 16 (accepted: F32, F16, BF16, I32)"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":1,"data_offsets":[0,2]}})", 2), "shape is 1"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[1.0],"data_offsets":[0,2]}})", 2),
                       "a dimension of the shape is 1.0"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[-1],"data_offsets":[0,2]}})", 2),
                       "a dimension of the shape is -1"));
  EXPECT_TRUE(
      has_text(refusal(R"({"a":{"dtype":"F16","shape":[18446744073709551615],"data_offsets":[0,2]}})", 2),
               "accepted: an integer, 0 or more"));
  EXPECT_TRUE(
      has_text(refusal(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0]}})", 2), "data_offsets is [0]"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,"2"]}})", 2),
                       R"(the end of data_offsets is "2")"));
}

TEST(Safetensors, NamesInMessagesStayOnOneLineAndShort) {
  EXPECT_TRUE(has_text(refusal(R"({"a\nb":7})", 0), R"(w.safetensors: "a\nb": is 7)"));
  const std::string message = refusal("{\"" + std::string(100000, 'x') + "\":7}", 0);
  EXPECT_LT(message.size(), 300U);
  EXPECT_LT(refusal("{\"" + std::string(100000, 'x') + "\n\":7}", 0).size(), 300U);
}

TEST(Safetensors, RefusesOffsetsOutsideTheData) {
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 3),
                       "data_offsets [0, 4] lie outside the file's 3 bytes"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[2,0]}})", 4),
                       "data_offsets [2, 0]"));
  EXPECT_TRUE(has_text(
      refusal(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[9223372036854775805,9223372036854775807]}})",
              4),
      "lie outside"));
}

TEST(Safetensors, RefusesSizesThatDoNotMatchTheShape) {
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,12]}})", 12),
                       "w.safetensors: a: data_offsets cover 12 bytes, F32 of shape [3, 2] need 24"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,4]}})", 4),
                       "I64 of shape [1] need 8"));
}

TEST(Safetensors, RefusesShapesWhoseSizeOverflows) {
  // 2^62 * 4 elements of 4 bytes is 0 modulo 2^64: the size of an empty tensor.
  EXPECT_TRUE(
      has_text(refusal(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
               "more elements than fit"));
  EXPECT_TRUE(has_text(refusal(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1),
                       "does not fill whole bytes"));
}

TEST(Safetensors, RefusesOverlapsHolesAndLeftovers) {
  const auto two = [](const char* a, const char* b) {
    return std::string(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":)") + a +
           R"(},"b":{"dtype":"F16","shape":[2],"data_offsets":)" + b + "}}";
  };
  ASSERT_NO_THROW(parse(two("[0,4]", "[4,8]"), 8));
  ASSERT_NO_THROW(parse(two("[4,8]", "[0,4]"), 8));
  EXPECT_TRUE(has_text(refusal(two("[0,4]", "[2,6]"), 6),
                       "w.safetensors: b: begins at byte 2 of the data and overlaps a"));
  EXPECT_TRUE(has_text(refusal(two("[0,4]", "[0,4]"), 4), "overlaps a"));
  EXPECT_TRUE(has_text(refusal(two("[0,4]", "[6,10]"), 10), "a hole of 2 bytes after a"));
  EXPECT_TRUE(has_text(refusal(two("[2,6]", "[6,10]"), 10), "a hole of 2 bytes after the header"));
  EXPECT_TRUE(has_text(refusal(two("[0,4]", "[4,8]"), 9), "1 bytes after the last tensor belong to none"));
}

}  // namespace
}  // namespace moetune
