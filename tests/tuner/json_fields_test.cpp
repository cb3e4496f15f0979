#include "tuner/json_fields.h"

#include <functional>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {
using nlohmann::json;

TEST(ParseJson, NamesLineAndColumn) {
  EXPECT_TRUE(has_text(message_of<InputError>([] { parse_json("{\n \"a\": 1,\n \"b\": }", "x.json"); }),
                       "x.json: parse error at line 3, column 7"));
}

TEST(ParseJson, RefusesAFieldGivenTwice) {
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { parse_json(R"({"a": 1, "b": {"a": 2, "a": 3}})", "x.json"); }),
               R"(x.json: field "a" is given twice)"));
  EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": 2}])", "x.json").size(), 2U);  // in two objects it is fine
}

TEST(ParseJson, RefusesDeepNestingBeforeItCostsStack) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { parse_json(deep, "x.json"); }), "nested more than 64 levels"));
  const std::string shallow = std::string(60, '[') + std::string(60, ']');
  EXPECT_NO_THROW(parse_json(shallow, "x.json"));
}

TEST(ParseJson, RefusesWhatIsNotOneUtf8Document) {
  for (const char* text : {"", "{} {}", "nul", "\"\xff\"", "1e999", "[1,]", "{\"a\"}", "\xef\xbb"})
    EXPECT_THROW(parse_json(text, "x.json"), InputError) << text;
}

TEST(ReadJsonFile, NamesTheFile) {
  EXPECT_TRUE(has_text(message_of<InputError>([] { read_json_file("no/such/file.json"); }),
                       "no/such/file.json: cannot be opened"));
  EXPECT_THROW(read_json_file("/"), InputError);                // a directory
  EXPECT_THROW(read_json_file("/dev/zero", 1000), InputError);  // too large, without reading all of it
}

TEST(ScalarText, IsTheCanonicalTextOfAKnobValue) {
  EXPECT_EQ(scalar_text(json::parse("8"), "x"), "8");
  EXPECT_EQ(scalar_text(json::parse("0.25"), "x"), "0.25");
  EXPECT_EQ(scalar_text(json::parse("1.0"), "x"), "1");
  EXPECT_EQ(scalar_text(json::parse("1e2"), "x"), "100");
  EXPECT_EQ(scalar_text("12GiB", "x"), "12GiB");
  for (const char* wrong : {"true", "null", "[1]", "{}"})
    EXPECT_TRUE(has_text(message_of<InputError>([&] { scalar_text(json::parse(wrong), "x"); }),
                         "a text or a number"));
}

TEST(ScalarJson, ComesBackAsTheSameText) {
  for (const char* text : {"8",
                           "-3",
                           "0.25",
                           "1",
                           "1.0",
                           "1e3",
                           "007",
                           " 8",
                           "",
                           "-0",
                           "-0.0",
                           "12GiB",
                           "on",
                           "null",
                           "[1]",
                           "\"",
                           "nan",
                           "18446744073709551615",
                           "99999999999999999999999",
                           "1e300",
                           "0.1",
                           "threshold:0.9",
                           "+1",
                           "0x10"}) {
    EXPECT_EQ(scalar_text(scalar_json(text), "x"), text);
    EXPECT_EQ(scalar_text(json::parse(scalar_json(text).dump()), "x"), text) << "through a file";
  }
  EXPECT_TRUE(scalar_json("0.25").is_number());
  EXPECT_TRUE(scalar_json("1.0").is_string());
}

TEST(CanonicalNumber, MergesSpellingsOfOneNumber) {
  for (const char* text : {"0.5", "0.50", "5e-1"}) EXPECT_EQ(canonical_number(text), "0.5");
  EXPECT_EQ(canonical_number("12GiB"), "12GiB");
  EXPECT_EQ(canonical_number("007"), "007");
}

struct FieldsTest : testing::Test {
  json object =
      json::parse(R"({"text": "abc", "number": 1.5, "count": 7, "big": 18446744073709551615, "minus": -1,
                                "nothing": null, "list": [1], "flag": true, "object": {"inner": 1}})");
  JsonFields fields{object, "a.json: part"};
  std::string complaint(const std::function<void()>& read) { return message_of<InputError>(read); }
};

TEST_F(FieldsTest, ReadsEveryType) {
  EXPECT_EQ(fields.text("text"), "abc");
  EXPECT_EQ(fields.text_or("text", "other"), "abc");
  EXPECT_EQ(fields.text_or("absent", "other"), "other");
  EXPECT_EQ(fields.number("number"), 1.5);
  EXPECT_EQ(fields.number("count"), 7.0);
  EXPECT_EQ(fields.integer("count", 0, 7), 7);
  EXPECT_EQ(fields.unsigned_integer("big"), UINT64_MAX);
  EXPECT_TRUE(fields.flag("flag"));
  EXPECT_EQ(fields.array("list").size(), 1U);
  EXPECT_EQ(fields.object("object").size(), 1U);
  EXPECT_TRUE(fields.has("text"));
  EXPECT_FALSE(fields.has("nothing"));
  EXPECT_FALSE(fields.has("absent"));
}

TEST_F(FieldsTest, ComplaintsNamePlaceValueAndWhatIsAccepted) {
  EXPECT_EQ(complaint([&] { fields.text("count"); }), "a.json: part.count: 7 (accepted: a text)");
  EXPECT_EQ(complaint([&] { fields.required("absent"); }), "a.json: part: field 'absent' is missing");
  EXPECT_EQ(complaint([&] { fields.integer("count", 1, 6); }),
            "a.json: part.count: 7 (accepted: a whole number from 1 to 6)");
  EXPECT_TRUE(has_text(complaint([&] { fields.integer("number", 1, 6); }), "1.5"));
  EXPECT_TRUE(has_text(complaint([&] { fields.integer("big", 0, INT64_MAX); }), "18446744073709551615"));
  EXPECT_TRUE(has_text(complaint([&] { fields.unsigned_integer("minus"); }), "-1"));
  EXPECT_TRUE(has_text(complaint([&] { fields.number("text"); }), "a number"));
  EXPECT_TRUE(has_text(complaint([&] { fields.number("nothing"); }), "null"));
  EXPECT_TRUE(has_text(complaint([&] { fields.flag("count"); }), "true or false"));
  EXPECT_TRUE(has_text(complaint([&] { fields.array("object"); }), "a list"));
  EXPECT_TRUE(has_text(complaint([&] { fields.object("list"); }), "an object"));
  EXPECT_TRUE(has_text(complaint([&] { fields.only({"text", "number"}); }), "unknown field"));
  EXPECT_TRUE(has_text(complaint([&] { JsonFields(object["list"], "a.json"); }), "an object"));
}

TEST(JsonFields, PlacesStartWithTheFile) {
  const json object = json::object();
  EXPECT_EQ(JsonFields(object, "a.json").place("x"), "a.json: x");
  EXPECT_EQ(JsonFields(object, "a.json: x[3]").place("y"), "a.json: x[3].y");
}

TEST(Shown, CutsLongValues) {
  EXPECT_EQ(shown(std::string(100, 'a')).size(), 63U);
  EXPECT_NO_THROW(shown(std::string("\xff\xfe")));
}

}  // namespace
}  // namespace moetune
