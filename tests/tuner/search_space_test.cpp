#include "tuner/search_space.h"

#include <set>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {
using nlohmann::json;

// A knob table in small: what knobs.h does for the real thing.
void known_knob(const std::string& name, const std::string& value) {
  static const std::set<std::string> names{"top_k",        "expert_cache", "expert_quant",
                                           "cache_policy", "router",       "tensor_parallel"};
  if (names.count(name) == 0)
    throw InputError("knob", "no knob named '" + name + "'", "top_k, expert_cache, ...");
  if (name == "top_k" && (value.size() > 2 || value.find_first_not_of("0123456789") != std::string::npos))
    throw InputError("top_k", value, "1 to the model's own");
}

SearchSpace space_from(const std::string& text, const SpaceSymbols& symbols = {{"native", 8}, {"cores", 6}}) {
  return search_space_from_json(parse_json(text, "space.json"), "space.json", known_knob, symbols);
}

std::string refusal(const std::string& text) {
  return message_of<InputError>([&] { space_from(text); });
}

std::string with_parameters(const std::string& parameters, const std::string& constraints = "[]") {
  return R"({"name": "test", "parameters": [)" + parameters + R"(], "constraints": )" + constraints + "}";
}

const std::string top_k = R"({"name": "top_k", "kind": "ordinal", "values": "1..native"})";
const std::string cache = R"({"name": "expert_cache", "kind": "ordinal", "values": [0.25, 0.5, 1]})";
const std::string quant =
    R"({"name": "expert_quant", "kind": "ordinal", "values": ["checkpoint", "int8", "int4"]})";
const std::string policy = R"({"name": "cache_policy", "kind": "categorical", "values": ["lru", "lfu"],
                               "active_if": {"expert_cache": [0.25, 0.5]}, "when_inactive": "lfu"})";

TEST(SearchSpace, ReadsValuesRangesConditionsAndConstraints) {
  const SearchSpace space = space_from(with_parameters(
      top_k + "," + cache + "," + quant + "," + policy,
      R"([{"forbid": {"expert_quant": ["int4"], "top_k": [1, 2]}, "reason": "too coarse"}])"));
  EXPECT_EQ(space.name, "test");
  ASSERT_EQ(space.parameters.size(), 4U);
  EXPECT_EQ(space.parameters[0].values, (std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7", "8"}));
  EXPECT_EQ(space.parameters[0].kind, Parameter::Kind::ordinal);
  EXPECT_EQ(space.parameters[1].values, (std::vector<std::string>{"0.25", "0.5", "1"}));
  EXPECT_EQ(space.parameters[3].kind, Parameter::Kind::categorical);
  EXPECT_EQ(space.parameters[3].when_inactive, "lfu");
  EXPECT_EQ(space.declared_size(), 8U * 3 * 3 * 2);
  ASSERT_EQ(space.constraints.size(), 1U);
  EXPECT_EQ(space.constraints[0].reason, "too coarse");
}

TEST(SearchSpace, RangesDoubleAndEndWithTheirLastValue) {
  const auto values = [](const std::string& range) {
    return space_from(with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": ")" + range + "\"}"))
        .parameters[0]
        .values;
  };
  EXPECT_EQ(values("1..cores x2"), (std::vector<std::string>{"1", "2", "4", "6"}));
  EXPECT_EQ(values("1..native x2"), (std::vector<std::string>{"1", "2", "4", "8"}));
  EXPECT_EQ(values("3..5"), (std::vector<std::string>{"3", "4", "5"}));
  EXPECT_EQ(values("native..native"), (std::vector<std::string>{"8"}));
}

TEST(SearchSpace, RankIsTheMixedRadixNumberAndComesBack) {
  const SearchSpace space = space_from(with_parameters(top_k + "," + cache + "," + policy));
  std::set<std::string> keys;
  for (std::uint64_t rank = 0; rank < space.declared_size(); ++rank) {
    const Configuration configuration = space.at(rank);
    EXPECT_EQ(space.rank_of(configuration), rank);
    EXPECT_EQ(space.rank_of(space.levels_at(rank)), rank);
    keys.insert(configuration.key());
  }
  EXPECT_EQ(keys.size(), space.declared_size());
  EXPECT_EQ(space.at(0).key(), "cache_policy=lru expert_cache=0.25 top_k=1");
  EXPECT_EQ(space.at(1).key(),
            "cache_policy=lfu expert_cache=0.25 top_k=1");  // the last parameter moves fastest
  EXPECT_THROW(space.at(space.declared_size()), std::out_of_range);
}

TEST(SearchSpace, ConstraintsDoNotMoveRanks) {
  const std::string parameters = top_k + "," + quant;
  const SearchSpace plain = space_from(with_parameters(parameters));
  const SearchSpace constrained =
      space_from(with_parameters(parameters, R"([{"forbid": {"top_k": [1]}, "reason": "r"}])"));
  for (std::uint64_t rank = 0; rank < plain.declared_size(); ++rank)
    EXPECT_EQ(plain.at(rank), constrained.at(rank));
  EXPECT_NE(plain.hash(), constrained.hash());
}

TEST(SearchSpace, RankOfRefusesForeignConfigurations) {
  const SearchSpace space = space_from(with_parameters(top_k + "," + quant));
  const Configuration own{{{"top_k", "8"}, {"expert_quant", "int8"}}};
  Configuration foreign_value = own;
  foreign_value.values["top_k"] = "9";
  Configuration missing = own;
  missing.values.erase("top_k");
  Configuration additional = own;
  additional.values["router"] = "cpu";
  EXPECT_TRUE(space.find(own).has_value());
  for (const Configuration& foreign : {foreign_value, missing, additional}) {
    EXPECT_THROW(space.rank_of(foreign), std::out_of_range);
    EXPECT_FALSE(space.find(foreign).has_value());
  }
}

TEST(SearchSpace, ObjectsInTheWordsOfTheConstraint) {
  const SearchSpace space = space_from(with_parameters(
      top_k + "," + quant,
      R"([{"forbid": {"top_k": [1, 2], "expert_quant": ["int4"]}, "reason": "too coarse"}])"));
  const auto objection = [&](const char* k, const char* q) {
    return space.objection({{{"top_k", k}, {"expert_quant", q}}});
  };
  EXPECT_EQ(objection("2", "int4"), "too coarse");
  EXPECT_FALSE(objection("3", "int4").has_value());
  EXPECT_FALSE(objection("2", "int8").has_value());
}

TEST(SearchSpace, InactiveParametersHaveOneValue) {
  const SearchSpace space = space_from(with_parameters(cache + "," + policy));
  const Configuration resident_lru{{{"expert_cache", "1"}, {"cache_policy", "lru"}}};
  const Configuration resident_lfu{{{"expert_cache", "1"}, {"cache_policy", "lfu"}}};
  const Configuration half_lru{{{"expert_cache", "0.5"}, {"cache_policy", "lru"}}};
  EXPECT_EQ(space.canonical(resident_lru), resident_lfu);
  EXPECT_EQ(space.canonical(half_lru), half_lru);
  EXPECT_EQ(space.find(resident_lru), space.find(resident_lfu));
  EXPECT_NE(space.rank_of(resident_lru), space.rank_of(resident_lfu));
}

TEST(SearchSpace, ActivityMayHangOnInactiveParameters) {
  // router is inactive when cache_policy is, because it then has its canonical value lfu.
  const std::string router = R"({"name": "router", "kind": "categorical", "values": ["gpu", "cpu"],
                                 "active_if": {"cache_policy": ["lru"]}})";
  const SearchSpace space = space_from(with_parameters(cache + "," + policy + "," + router));
  const Configuration before{{{"expert_cache", "1"}, {"cache_policy", "lru"}, {"router", "cpu"}}};
  EXPECT_EQ(space.canonical(before).key(), "cache_policy=lfu expert_cache=1 router=gpu");
}

TEST(SearchSpace, HashTellsContentsApartAndIgnoresWords) {
  const std::string reason_a = R"([{"forbid": {"top_k": [1]}, "reason": "a"}])";
  const std::string reason_b = R"([{"forbid": {"top_k": [1]}, "reason": "b"}])";
  EXPECT_EQ(space_from(with_parameters(top_k, reason_a)).hash(),
            space_from(with_parameters(top_k, reason_b)).hash());
  EXPECT_NE(space_from(with_parameters(top_k)).hash(),
            space_from(with_parameters(top_k), {{"native", 7}}).hash());
  EXPECT_NE(space_from(with_parameters(top_k + "," + quant)).hash(),
            space_from(with_parameters(quant + "," + top_k)).hash());
  EXPECT_EQ(space_from(with_parameters(top_k)).hash().size(), 16U);
}

TEST(SearchSpace, RefusalsNameFileFieldValueAndWhatIsAccepted) {
  struct Case {
    std::string text;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {with_parameters(R"({"name": "topk", "kind": "ordinal", "values": [1]})"),
       {"space.json: parameters[0].values[0]", "no knob named 'topk'", "accepted: top_k"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": [2, 999]})"),
       {"space.json: parameters[0].values[1]", "999", "1 to the model's own"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": []})"),
       {"parameters[0].values", "0 values", "1 to 1024 values"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": [1, 2, 1]})"),
       {"values[2]", "1 is there twice"}},
      {with_parameters(R"({"name": "expert_cache", "kind": "ordinal", "values": [0.5, "0.50"]})"),
       {"values[1]", "0.5 is there twice"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": [1, 3, 2]})"),
       {"neither rising nor falling"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": "1..naitve"})"),
       {"parameters[0].values", "'naitve'", "a whole number, cores, native"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": "9..native"})"),
       {"\"9..native\" is empty here", "native = 8"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": "1..999999"})"),
       {"too long", "at most 1024"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": "0..8 x2"})"), {"doubling from 1"}},
      {with_parameters(R"({"name": "top_k", "kind": "ordinal", "values": "1-8"})"),
       {"\"1-8\"", "a list of values, or a range"}},
      {with_parameters(top_k + "," + top_k), {"parameters[1].name", "'top_k' is there twice"}},
      {with_parameters(policy),
       {"parameters[0].active_if.expert_cache", "not an earlier parameter", "accepted: none"}},
      {with_parameters(
           cache + "," +
           R"({"name": "cache_policy", "kind": "categorical", "values": ["lru"], "active_if": {"expert_cache": [0.75]}})"),
       {"parameters[1].active_if.expert_cache[0]", "0.75 is not a value of expert_cache", "0.25, 0.5, 1"}},
      {with_parameters(cache + "," + R"({"name": "cache_policy", "kind": "categorical", "values": ["lru"],
                                         "active_if": {"expert_cache": [0.5]}, "when_inactive": "lfu"})"),
       {"parameters[1].when_inactive", "lfu is not a value of cache_policy"}},
      {with_parameters(top_k, R"([{"forbid": {"router": ["cpu"]}, "reason": "r"}])"),
       {"constraints[0].forbid.router", "'router' is not a parameter of this space", "top_k"}},
      {with_parameters(quant, R"([{"forbid": {"expert_quant": ["int3"]}, "reason": "r"}])"),
       {"constraints[0].forbid.expert_quant[0]", "int3", "checkpoint, int8, int4"}},
      {R"({"name": "test", "parametres": []})", {"space.json", "unknown field \"parametres\"", "parameters"}},
  };
  for (const Case& wrong : cases) {
    const std::string message = refusal(wrong.text);
    EXPECT_TRUE(has_text(message, "space.json"));
    for (const std::string& part : wrong.parts) EXPECT_TRUE(has_text(message, part)) << wrong.text;
  }
}

TEST(SearchSpace, ConditionsOnARangeMayNameValuesThatTheModelLacks) {
  const SearchSpace space = space_from(
      with_parameters(top_k, R"([{"forbid": {"top_k": [1, 12]}, "reason": "r"}])"), {{"native", 4}});
  EXPECT_EQ(legal_configurations(space, {}).ranks, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST(SearchSpace, RefusesMoreConfigurationsThanANumberHolds) {
  const std::string values = R"("values": "1..99"})";
  std::string parameters;
  for (int i = 0; i < 12; ++i)
    parameters += (i == 0 ? "" : ",") + std::string(R"({"kind": "ordinal", "name": "p)") + std::to_string(i) +
                  "\"," + values;
  const json document = parse_json(with_parameters(parameters), "big.json");
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { search_space_from_json(document, "big.json", [](auto&, auto&) {}); }),
      "more than 2^62 configurations"));
}

}  // namespace
}  // namespace moetune
