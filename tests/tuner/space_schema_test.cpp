// search_space.schema.json and read_space_document() must say the same about every document: the schema is
// what an editor shows, the reader is what the program does.
#include <functional>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/facts/knobs.h"
#include "tests/support/source_dir.h"
#include "tuner/json_fields.h"
#include "tuner/json_schema.h"
#include "tuner/space_document.h"

namespace moetune {
namespace {
using nlohmann::json;

json schema() { return read_json_file(source_dir() + "/search_spaces/search_space.schema.json"); }

bool reader_accepts(const json& document) {
  try {
    read_space_document(document, "space.json");
    return true;
  } catch (const InputError&) {
    return false;
  }
}

json valid() {
  return json::parse(R"({
    "$schema": "./search_space.schema.json", "name": "test-1", "description": "words",
    "parameters": [
      {"name": "top_k", "kind": "ordinal", "values": "1..native"},
      {"name": "cpu_threads", "kind": "ordinal", "values": "1..cores x2", "description": "words"},
      {"name": "expert_cache", "kind": "ordinal", "values": [0.25, 1, "12GiB"]},
      {"name": "cache_policy", "kind": "categorical", "values": ["lru", "lfu"], "active_if": {"expert_cache": [0.25]},
       "when_inactive": "lfu"}
    ],
    "constraints": [{"forbid": {"top_k": [1], "expert_cache": [1]}, "reason": "because"}]
  })");
}

struct Change {
  const char* what;
  bool accepted;
  std::function<void(json&)> make;
};

const std::vector<Change>& changes() {
  static const std::string long_name(65, 'a');
  static const auto& parameter = [](json& d) -> json& { return d["parameters"][0]; };
  static const std::vector<Change> all{
      {"nothing", true, [](json&) {}},
      {"not an object", false, [](json& d) { d = json::array(); }},
      {"no constraints", true, [](json& d) { d.erase("constraints"); }},
      {"empty constraints", true, [](json& d) { d["constraints"] = json::array(); }},
      {"constraints null", false, [](json& d) { d["constraints"] = nullptr; }},
      {"constraints object", false, [](json& d) { d["constraints"] = json::object(); }},
      {"no name", false, [](json& d) { d.erase("name"); }},
      {"empty name", false, [](json& d) { d["name"] = ""; }},
      {"name with a slash", false, [](json& d) { d["name"] = "../x"; }},
      {"name with a line end", false, [](json& d) { d["name"] = "x\n"; }},
      {"upper-case name", false, [](json& d) { d["name"] = "Test"; }},
      {"long name", false, [](json& d) { d["name"] = long_name; }},
      {"name of 64", true, [](json& d) { d["name"] = long_name.substr(1); }},
      {"name a number", false, [](json& d) { d["name"] = 1; }},
      {"schema a number", false, [](json& d) { d["$schema"] = 1; }},
      {"schema absent", true, [](json& d) { d.erase("$schema"); }},
      {"description a list", false, [](json& d) { d["description"] = json::array(); }},
      {"description long", false, [](json& d) { d["description"] = std::string(1001, 'x'); }},
      {"description 1000 umlauts", true,
       [](json& d) {
         std::string text;
         for (int i = 0; i < 1000; ++i) text += "\xc3\xa4";
         d["description"] = text;
       }},
      {"unknown field", false, [](json& d) { d["extra"] = 1; }},
      {"no parameters", false, [](json& d) { d.erase("parameters"); }},
      {"empty parameters", false, [](json& d) { d["parameters"] = json::array(); }},
      {"parameters object", false, [](json& d) { d["parameters"] = json::object(); }},
      {"65 parameters", false,
       [](json& d) {
         while (d["parameters"].size() < 65) d["parameters"].push_back(d["parameters"][0]);
       }},
      {"64 parameters", true,
       [](json& d) {
         while (d["parameters"].size() < 64) d["parameters"].push_back(d["parameters"][0]);
       }},
      {"parameter a text", false, [](json& d) { d["parameters"][0] = "top_k"; }},
      {"parameter without name", false, [](json& d) { parameter(d).erase("name"); }},
      {"parameter without kind", false, [](json& d) { parameter(d).erase("kind"); }},
      {"parameter without values", false, [](json& d) { parameter(d).erase("values"); }},
      {"parameter with extra field", false, [](json& d) { parameter(d)["value"] = 1; }},
      {"parameter name with space", false, [](json& d) { parameter(d)["name"] = "top k"; }},
      {"parameter name from digit", false, [](json& d) { parameter(d)["name"] = "1k"; }},
      {"unknown kind", false, [](json& d) { parameter(d)["kind"] = "integer"; }},
      {"kind a number", false, [](json& d) { parameter(d)["kind"] = 1; }},
      {"values null", false, [](json& d) { parameter(d)["values"] = nullptr; }},
      {"values a number", false, [](json& d) { parameter(d)["values"] = 8; }},
      {"values object", false, [](json& d) { parameter(d)["values"] = json::object(); }},
      {"values empty", false, [](json& d) { parameter(d)["values"] = json::array(); }},
      {"values with bool", false, [](json& d) { parameter(d)["values"] = {true}; }},
      {"values with null", false, [](json& d) { parameter(d)["values"] = {nullptr}; }},
      {"values nested", false, [](json& d) { parameter(d)["values"] = json::array({json::array({1})}); }},
      {"value twice", false, [](json& d) { parameter(d)["values"] = {1, 2, 1}; }},
      {"text twice", false, [](json& d) { parameter(d)["values"] = {"a", "a"}; }},
      {"1 and 1.0", false, [](json& d) { parameter(d)["values"] = json::array({1, 1.0}); }},
      {"1 and \"1\"", true,
       [](json& d) { parameter(d)["values"] = {1, "1"}; }},  // refused later, as the same knob value
      {"empty value", false, [](json& d) { parameter(d)["values"] = {""}; }},
      {"value with space", false, [](json& d) { parameter(d)["values"] = {"a b"}; }},
      {"value with equals sign", false, [](json& d) { parameter(d)["values"] = {"a=b"}; }},
      {"value of all signs", true, [](json& d) { parameter(d)["values"] = {"aZ09_.:+-"}; }},
      {"value long", false, [](json& d) { parameter(d)["values"] = {long_name}; }},
      {"1025 values", false,
       [](json& d) {
         parameter(d)["values"] = json::array();
         for (int i = 0; i < 1025; ++i) parameter(d)["values"].push_back(i);
       }},
      {"1024 values", true,
       [](json& d) {
         parameter(d)["values"] = json::array();
         for (int i = 0; i < 1024; ++i) parameter(d)["values"].push_back(i);
       }},
      {"range of numbers", true, [](json& d) { parameter(d)["values"] = "1..8"; }},
      {"range backwards", true, [](json& d) { parameter(d)["values"] = "8..1"; }},  // refused later
      {"range doubling", true, [](json& d) { parameter(d)["values"] = "1..64 x2"; }},
      {"range tripling", false, [](json& d) { parameter(d)["values"] = "1..64 x3"; }},
      {"range with three dots", false, [](json& d) { parameter(d)["values"] = "1...8"; }},
      {"range without end", false, [](json& d) { parameter(d)["values"] = "1.."; }},
      {"range of fractions", false, [](json& d) { parameter(d)["values"] = "0.1..0.5"; }},
      {"range negative", false, [](json& d) { parameter(d)["values"] = "-1..5"; }},
      {"range long number", false, [](json& d) { parameter(d)["values"] = "1..1000000"; }},
      {"range trailing", false, [](json& d) { parameter(d)["values"] = "1..8 "; }},
      {"range upper-case", false, [](json& d) { parameter(d)["values"] = "1..Native"; }},
      {"range empty", false, [](json& d) { parameter(d)["values"] = ""; }},
      {"range two marks", false, [](json& d) { parameter(d)["values"] = "1..8 x2 x2"; }},
      {"range mark only", false, [](json& d) { parameter(d)["values"] = " x2"; }},
      {"active_if list", false, [](json& d) { d["parameters"][3]["active_if"] = json::array(); }},
      {"active_if empty", false, [](json& d) { d["parameters"][3]["active_if"] = json::object(); }},
      {"active_if null", false, [](json& d) { d["parameters"][3]["active_if"] = nullptr; }},
      {"active_if scalar", false, [](json& d) { d["parameters"][3]["active_if"]["expert_cache"] = 0.25; }},
      {"active_if bad name", false, [](json& d) { d["parameters"][3]["active_if"]["Expert"] = {1}; }},
      {"active_if absent", false,
       [](json& d) { d["parameters"][3].erase("active_if"); }},  // when_inactive hangs on it
      {"when_inactive absent", true, [](json& d) { d["parameters"][3].erase("when_inactive"); }},
      {"when_inactive a list", false, [](json& d) { d["parameters"][3]["when_inactive"] = {"lfu"}; }},
      {"when_inactive null", false, [](json& d) { d["parameters"][3]["when_inactive"] = nullptr; }},
      {"when_inactive a number", true, [](json& d) { d["parameters"][3]["when_inactive"] = 0.5; }},
      {"constraint without reason", false, [](json& d) { d["constraints"][0].erase("reason"); }},
      {"constraint with empty reason", false, [](json& d) { d["constraints"][0]["reason"] = ""; }},
      {"constraint without forbid", false, [](json& d) { d["constraints"][0].erase("forbid"); }},
      {"constraint with extra field", false, [](json& d) { d["constraints"][0]["allow"] = json::object(); }},
      {"forbid nothing", false, [](json& d) { d["constraints"][0]["forbid"] = json::object(); }},
      {"forbid empty list", false, [](json& d) { d["constraints"][0]["forbid"]["top_k"] = json::array(); }},
      {"257 constraints", false,
       [](json& d) {
         while (d["constraints"].size() < 257) d["constraints"].push_back(d["constraints"][0]);
       }},
  };
  return all;
}

TEST(SpaceSchema, SaysTheSameAsTheReader) {
  const json compiled = schema();
  for (const Change& change : changes()) {
    json document = valid();
    change.make(document);
    EXPECT_EQ(reader_accepts(document), change.accepted) << "reader: " << change.what;
    EXPECT_EQ(schema_violations(document, compiled).empty(), change.accepted) << "schema: " << change.what;
  }
}

TEST(SpaceSchema, ViolationsNameThePlace) {
  json document = valid();
  document["parameters"][1]["kind"] = "integer";
  const auto violations = schema_violations(document, schema());
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations.front().rfind("parameters[1].kind: ", 0), 0U) << violations.front();
}

TEST(SpaceSchema, ABrokenSchemaIsOurFault) {
  EXPECT_THROW(schema_violations(json::object(), json::parse(R"({"type": 7})")), std::runtime_error);
}

struct ShippedSpaceTest : testing::TestWithParam<const char*> {};

TEST_P(ShippedSpaceTest, IsValidAndOfKnownKnobs) {
  const std::string file = source_dir() + "/search_spaces/" + GetParam() + ".json";
  const json document = read_json_file(file);
  EXPECT_EQ(schema_violations(document, schema()), std::vector<std::string>{});
  const auto known = [](const std::string& name, const std::string& value) {
    EngineOptions options;
    set_knob(options, name, value);
    // A value that is not the knob's canonical text would be a configuration that
    // cannot be told from another one.
    const std::string canonical = knob_named(name).get(options);
    EXPECT_EQ(canonical, value) << name;
  };
  const SearchSpace space = load_search_space(file, known, {{"native", 8}, {"cores", 2}});
  EXPECT_EQ(space.name, GetParam());
  EXPECT_FALSE(legal_configurations(space, {}).ranks.empty());
}
INSTANTIATE_TEST_SUITE_P(Spaces, ShippedSpaceTest, testing::Values("default", "full", "quick"));

TEST(ShippedSpaces, HaveTheKnobsTheyShould) {
  const auto names = [](const char* space_name) {
    std::set<std::string> found;
    const json document = read_json_file(source_dir() + "/search_spaces/" + space_name + ".json");
    for (const json& parameter : document["parameters"]) found.insert(parameter["name"].get<std::string>());
    return found;
  };
  std::set<std::string> all;
  std::set<std::string> of_default;
  for (const Knob& knob : knobs()) {
    all.emplace(knob.name);
    if (knob.in_default_space) of_default.emplace(knob.name);
  }
  EXPECT_EQ(names("full"), all);
  EXPECT_EQ(names("default"), of_default);
}

}  // namespace
}  // namespace moetune
