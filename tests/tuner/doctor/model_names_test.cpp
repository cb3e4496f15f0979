#include "tuner/doctor/model_names.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

constexpr auto url = "http://localhost:8000";

TEST(ModelNames, AreReadFromTheServersList) {
  const std::string body =
      R"({"object":"list","data":[{"id":"a/b","object":"model"},{"id":"c","owned_by":"vllm"}]})";
  EXPECT_EQ(served_models(body, url), (std::vector<std::string>{"a/b", "c"}));
  EXPECT_TRUE(served_models(R"({"data":[]})", url).empty());
  for (const char* wrong : {"", "<html>", "[]", R"({"data":{}})", R"({"data":[1]})", R"({"data":[{"id":3}]})",
                            R"({"data":[{}]})"})
    EXPECT_THROW(served_models(wrong, url), InputError) << wrong;
}

// The complaint: the server answers that a model does not exist although it is loaded.
TEST(ModelNames, ARejectedNameIsAnotherSpellingOfAServedOne) {
  const Finding finding = judge_model_name("deepseek-v3", {"deepseek-ai/DeepSeek-V3"}, url);
  EXPECT_EQ(finding.id, "model_renamed");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_NE(finding.remedy.find("--served-model-name deepseek-v3"), std::string::npos);
  EXPECT_EQ(judge_model_name("deepseek_v3", {"DeepSeek-V3"}, url).id, "model_renamed");
}

TEST(ModelNames, ARejectedNameIsNotServedAtAll) {
  const Finding finding = judge_model_name("gpt-4", {"a", "b"}, url);
  EXPECT_EQ(finding.id, "model_unknown");
  EXPECT_NE(finding.what.find("a, b"), std::string::npos);
  EXPECT_EQ(judge_model_name("x", {}, url).id, "model_unknown");
}

TEST(ModelNames, TheSameLettersAreServed) {
  EXPECT_EQ(judge_model_name("a/b", {"c", "a/b"}, url).id, "model_served");
  EXPECT_EQ(judge_model_name("", {"c"}, url).id, "models_served");
}

}  // namespace
}  // namespace moetune
