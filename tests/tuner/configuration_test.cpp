#include "tuner/configuration.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {
using nlohmann::json;

TEST(Configuration, KeyIsSortedByName) {
  const Configuration configuration{{{"top_k", "7"}, {"expert_cache", "0.5"}}};
  EXPECT_EQ(configuration.key(), "expert_cache=0.5 top_k=7");
  EXPECT_EQ(Configuration{}.key(), "");
}

TEST(Configuration, NumbersAreNumbersInJsonAndComeBackAsTheSameTexts) {
  const Configuration configuration{{{"top_k", "7"},
                                     {"expert_cache", "0.5"},
                                     {"quant", "int4"},
                                     {"size", "12GiB"},
                                     {"odd", "1.0"},
                                     {"empty", ""}}};
  const json object = to_json_value(configuration);
  EXPECT_EQ(object.dump(),
            R"({"empty":"","expert_cache":0.5,"odd":"1.0","quant":"int4","size":"12GiB","top_k":7})");
  EXPECT_EQ(configuration_from_json(json::parse(object.dump()), "x"), configuration);
}

TEST(Configuration, RefusesWhatIsNoValue) {
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { configuration_from_json(json::parse(R"({"a": [1]})"), "f: c"); }),
               "f: c.a: [1] (accepted: a text or a number)"));
  EXPECT_THROW(configuration_from_json(json::parse("[]"), "f"), InputError);
}

}  // namespace
}  // namespace moetune
