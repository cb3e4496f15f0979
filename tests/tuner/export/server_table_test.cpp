#include "tuner/export/server_table.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/export/support.h"
#include "tuner/export/claims.h"
#include "tuner/export/placeholders.h"
#include "tuner/json_fields.h"
#include "tuner/json_schema.h"

namespace moetune {
namespace {

TEST(ServerTables, AllEightAreThereUnderEverySpelling) {
  for (const char* const name : {"vllm", "sglang", "llama.cpp", "llama_cpp", "tensorrt-llm", "trtllm",
                                 "TensorRT-LLM", "ktransformers", "tgi", "lmdeploy", "ollama"})
    EXPECT_NO_THROW(server_named(server_tables(), "--server", name)) << name;
  EXPECT_EQ(server_tables().size(), 8U);
  const std::string message =
      message_of<InputError>([] { server_named(server_tables(), "--server", "vlm"); });
  EXPECT_TRUE(has_text(message, "--server: 'vlm' (accepted: ktransformers, llama.cpp, lmdeploy"));
}

TEST(ServerTables, KeepTheirSchema) {
  const nlohmann::json schema = read_json_file(flags_folder() + "/server_flags.schema.json");
  for (const ServerTable& table : server_tables())
    EXPECT_EQ(schema_violations(read_json_file(flags_folder() + "/" + table.server + ".json"), schema),
              std::vector<std::string>{})
        << table.server;
}

TEST(ServerTables, EveryPlaceholderIsKnown) {
  const std::vector<std::string> known = placeholder_names();
  const auto check = [&](const ServerTable& table, const std::string& text) {
    if (!text.starts_with('<')) return;
    EXPECT_NE(std::ranges::find(known, text.substr(1, text.size() - 2)), known.end())
        << table.server << ": " << text;
  };
  for (const ServerTable& table : server_tables())
    for (const auto& [setting, rules] : table.settings)
      for (const SettingRule& rule : rules) {
        for (const std::string& text : rule.arguments) check(table, text);
        for (const std::string& text : rule.nearest_arguments) check(table, text);
        for (const auto& [variable, text] : rule.environment) check(table, text);
      }
}

TEST(ServerTables, EverySettingIsAKnobOrDerived) {
  const std::set<std::string> derived{"max_model_len", "gpu_memory_fraction"};
  for (const ServerTable& table : server_tables())
    for (const auto& [setting, rules] : table.settings)
      EXPECT_TRUE(knob_names().of_setting(setting) != nullptr || derived.contains(setting))
          << table.server << ": " << setting;
}

TEST(ServerTables, EveryKnobHasAName) {
  for (const Knob& knob : knobs()) EXPECT_NE(knob_names().find(knob.name), nullptr) << knob.name;
  EXPECT_EQ(knob_names().find("router_top_k"), knob_names().find("top_k"));
}

TEST(ServerTables, NoRumouredFlagIsInThem) {
  for (const char* const flag : {"--enable-expert-cache", "--expert-cache-size", "--disable-quantization"})
    for (const ServerTable& table : server_tables())
      EXPECT_TRUE(std::ranges::none_of(table.flags,
                                       [&](const std::string& known) { return plain_flag(known) == flag; }))
          << table.server << " " << flag;
}

std::string broken_table(const TemporaryDirectory& folder, const std::string& server,
                         const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json document = read_json_file(flags_folder() + "/" + server + ".json");
  change(document);
  const std::string file = folder / "broken.json";
  std::ofstream(file) << document;
  return message_of<InputError>([&] { read_server_table(file); });
}

TEST(ServerTables, AFlagValueKeyOrVariableThatTheServerDoesNotAcceptIsRefused) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(has_text(
      broken_table(
          folder, "vllm",
          [](auto& table) { table["settings"]["cuda_graphs"][1]["arguments"] = {"--enable-expert-cache"}; }),
      "settings.cuda_graphs[1]: '--enable-expert-cache'"));
  EXPECT_TRUE(has_text(broken_table(folder, "vllm",
                                    [](auto& table) {
                                      table["settings"]["kv_cache_dtype"][0]["arguments"] = {
                                          "--kv-cache-dtype", "fp16"};
                                    }),
                       "settings.kv_cache_dtype[0]: --kv-cache-dtype fp16"));
  EXPECT_TRUE(has_text(
      broken_table(folder, "tensorrt-llm",
                   [](auto& table) { table["settings"]["cuda_graphs"][1]["config"] = {{"graphs", false}}; }),
      "'graphs'"));
  EXPECT_TRUE(has_text(
      broken_table(
          folder, "ollama",
          [](auto& table) { table["settings"]["max_concurrency"][0]["environment"] = {{"OLLAMA_X", "1"}}; }),
      "'OLLAMA_X'"));
  EXPECT_TRUE(has_text(broken_table(folder, "vllm", [](auto& table) { table["colour"] = 1; }), "colour"));
}

TEST(ServerTables, VersionsAreComparedByTheirNumbers) {
  EXPECT_TRUE(is_older("b11479", "b11480"));
  EXPECT_FALSE(is_older("b12191", "b11480"));
  EXPECT_TRUE(is_older("v0.10.0", "0.28"));
  EXPECT_FALSE(is_older("0.28.0", "0.28"));
  EXPECT_TRUE(is_older("1.2.0rc9", "1.3"));
  EXPECT_THROW(is_older("newest", "1.3"), InputError);
}

}  // namespace
}  // namespace moetune
