// Where calibration tokens come from and how windows are cut.
#include "engine/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

TokenSource numbered(int size) {
  TokenSource source;
  source.ids.resize(static_cast<std::size_t>(size));
  std::iota(source.ids.begin(), source.ids.end(), 0);
  return source;
}

class Tokens : public testing::Test {
 protected:
  // mixtral has 103 tokens; with a byte tokenizer it stands for a model of a small alphabet.
  Tokens() {
    std::filesystem::copy(source_dir() + "/tests/golden/mixtral", directory.path(),
                          std::filesystem::copy_options::recursive);
  }
  void give_byte_tokenizer() const {
    write_bytes(directory / "tokenizer_config.json", R"({"tokenizer_class": "ByteTokenizer"})");
  }
  TokenSource tokens(const std::string& file, std::int64_t count = 10) const {
    const Checkpoint checkpoint(directory.path().string());
    return calibration_tokens(checkpoint, file, count);
  }
  std::string written(const std::string& text) const {
    write_bytes(directory / "file.txt", text);
    return directory / "file.txt";
  }
  std::string refusal(const std::string& file) const {
    return message_of<InputError>([&] { tokens(file); });
  }
  TemporaryDirectory directory;
};

TEST_F(Tokens, AreTheBytesOfTheCalibrationText) {
  give_byte_tokenizer();
  write_bytes(directory / "calibration.txt", "ABBA \n");
  const TokenSource source = tokens("");
  EXPECT_EQ(source.ids, (std::vector<std::int32_t>{65, 66, 66, 65, 32, 10}));
  EXPECT_TRUE(source.from_text);
  EXPECT_EQ(source.description, "calibration.txt, bytes");
}

TEST_F(Tokens, AreThoseOfTheFileThatWasNamed) {
  EXPECT_EQ(tokens(written("1, 2\n102")).ids, (std::vector<std::int32_t>{1, 2, 102}));
  EXPECT_EQ(tokens(written("1, 2\n102")).description, "file.txt, token ids");
  give_byte_tokenizer();
  EXPECT_EQ(tokens(written("12")).ids, (std::vector<std::int32_t>{49, 50}));
}

TEST_F(Tokens, OutsideTheVocabularyAreRefused) {
  EXPECT_TRUE(has_text(refusal(written("1,103")),
                       R"(file.txt: token 2 is "103" (accepted: token ids from 0 to 102)"));
  EXPECT_TRUE(has_text(refusal(written("1,-1")), R"(token 2 is "-1")"));
  EXPECT_TRUE(has_text(refusal(written("1 x2")), R"(token 2 is "x2")"));
  EXPECT_TRUE(has_text(refusal(written("99999999999999999999")), R"(token 1 is "99999999999999999999")"));
  EXPECT_TRUE(has_text(refusal(written(" ,\n")), "file.txt: empty"));
  EXPECT_TRUE(has_text(refusal(directory / "nothing"), "nothing: No such file"));
  give_byte_tokenizer();
  EXPECT_TRUE(has_text(refusal(written("ABz")),
                       "file.txt: byte 122 at 2 (accepted: bytes below the vocabulary of 103)"));
  EXPECT_TRUE(has_text(refusal(written("")), "file.txt: empty"));
  EXPECT_TRUE(has_text(refusal(""), "calibration.txt: No such file"));
  write_bytes(directory / "tokenizer_config.json", "{");
  EXPECT_TRUE(has_text(refusal(""), "tokenizer_config.json: not valid JSON"));
}

TEST_F(Tokens, WithoutATokenizerAreSeededAndSpreadLikeZipf) {
  const TokenSource source = tokens("", 100000);
  EXPECT_FALSE(source.from_text);
  EXPECT_EQ(source.description, "seeded ids, no tokenizer");
  ASSERT_EQ(source.ids.size(), 100000U);
  EXPECT_EQ(tokens("", 100000).ids, source.ids);
  std::map<std::int32_t, int> counts;
  for (const std::int32_t id : source.ids) ++counts[id];
  EXPECT_EQ(counts.size(), 103U);
  EXPECT_GE(counts.begin()->first, 0);
  EXPECT_LT(counts.rbegin()->first, 103);
  std::vector<int> sorted;
  for (const auto& [id, count] : counts) sorted.push_back(count);
  std::ranges::sort(sorted, std::greater<>());
  EXPECT_NEAR(sorted[0], 1e5 * std::log(2.0) / std::log(104.0),
              1500);  // the first rank's share of a log-uniform draw
  EXPECT_NEAR(sorted[9], 1e5 * std::log(11.0 / 10.0) / std::log(104.0), 500);
}

TEST(Windows, FollowOneAnotherAndWrap) {
  const TokenSource source = numbered(10);
  EXPECT_EQ(source.window(0, 3), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(source.window(1, 3), (std::vector<std::int32_t>{3, 4, 5}));
  EXPECT_EQ(source.window(3, 3), (std::vector<std::int32_t>{9, 0, 1}));
  EXPECT_EQ(source.window(0, 12), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
  EXPECT_TRUE(source.window(5, 0).empty());
}

TEST(Windows, OfDifferentNumbersAreDifferent) {
  for (const int size : {1, 2, 10, 12, 97, 128}) {
    const TokenSource source = numbered(size);
    for (const int length : {1, 2, 4, 6, 12, 128}) {
      std::set<std::vector<std::int32_t>> seen;
      for (int number = 0; number < size; ++number)
        seen.insert(source.window(static_cast<std::uint64_t>(number), length));
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(size)) << size << " " << length;
    }
  }
  EXPECT_EQ(numbered(7).window(UINT64_MAX, 2).size(), 2U);
}

TEST(Windows, OfNothingAreRefused) {
  EXPECT_TRUE(has_text(message_of<InputError>([] { numbered(0).window(0, 1); }), "no tokens"));
}

}  // namespace
}  // namespace moetune
