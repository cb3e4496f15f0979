#include "tuner/export/formats.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/export/support.h"

namespace moetune {
namespace {

using Words = std::vector<std::string>;

const Words hostile{"plain",
                    "it's",
                    "a \"b\"",
                    "$(touch pwned)",
                    "`touch pwned`",
                    "$HOME",
                    "${HOME}",
                    "two\nlines",
                    "<script>alert(1)</script>",
                    "a\\b",

                    "#x",
                    "a: b",
                    "a - b",
                    "yes",
                    "1e5",
                    "%s",
                    "\t",
                    "'\n# $(touch pwned)\n'",
                    "caf\xc3\xa9 \xf0\x9f\x98\x80",
                    "\x01\x1b[31m",
                    "*",
                    "~",
                    "!x"};

ContainerFacts container_of(const ServerTable& table) {
  return {.image = table.image,
          .listen = table.listen,
          .port = table.port,
          .gpus = 1,
          .folders = {"/models"},
          .name = "moetune-x"};
}

ExportInputs hostile_inputs(const std::string& text) {
  ExportInputs inputs = all_inputs();
  for (const char* const name : {"server_model", "gguf", "kt_weights", "kt_method", "served_name"})
    inputs.given[name] = text;
  return inputs;
}

Words with_config(const ServerCommand& command) {
  Words words = command.arguments();
  if (!command.config().is_null()) words.insert(words.end(), {command.config_flag, "moetune-server.yaml"});
  return words;
}

// Runs many exported texts in one shell: each command word becomes a function that prints variables and
// arguments, each ended by NUL. Files are written in a folder of their own.
class ShellBatch {
 public:
  void add(const ServerCommand& command, const std::string& text) {
    std::string command_words;
    for (const std::string& word : command.command)
      command_words += (command_words.empty() ? "" : " ") + word;
    const auto last = text.find(command_words, last_comment_end(text));
    ASSERT_NE(last, std::string::npos) << text;
    script_ += text.substr(0, last) + "show" + text.substr(last + command_words.size());
    for (const auto& [variable, value] : command.environment())
      expected_ += variable + "=" + value + std::string(1, '\0');
    for (const std::string& word : with_config(command)) expected_ += word + std::string(1, '\0');
    expected_ += std::string("end\0", 4);
  }

  void check() {
    const std::string file = folder_ / "script";
    std::ofstream(file) << "show() {\n"
                           "  for name in GGML_CUDA_DISABLE_GRAPHS OLLAMA_CONTEXT_LENGTH "
                           "OLLAMA_KV_CACHE_TYPE OLLAMA_NUM_PARALLEL; do\n"
                           "    eval \"value=\\${$name-unset}\"; [ \"$value\" = unset ] || printf '%s=%s\\0' "
                           "\"$name\" \"$value\"; done\n"
                           "  for word in \"$@\"; do printf '%s\\0' \"$word\"; done\n"
                           "  printf 'end\\0'\n"
                           "  unset GGML_CUDA_DISABLE_GRAPHS OLLAMA_CONTEXT_LENGTH OLLAMA_KV_CACHE_TYPE "
                           "OLLAMA_NUM_PARALLEL; }\n"
                        << script_;
    const std::string run = "cd '" + folder_.path().string() + "' && sh ./script 2>&1";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(run.c_str(), "r"), ::pclose);
    ASSERT_NE(pipe, nullptr);
    std::string got;
    std::array<char, 65536> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
      got.append(buffer.data(), n);
    if (got != expected_) {
      const auto [a, b] = std::ranges::mismatch(got, expected_);
      FAIL() << "got ..." << std::string(a, std::min(got.end(), a + 200)) << "... expected ..."
             << std::string(b, std::min(expected_.end(), b + 200));
    }
    EXPECT_FALSE(std::ifstream(folder_ / "pwned").good());
  }

 private:
  static std::size_t last_comment_end(const std::string& text) {
    std::size_t at = 0;
    while (text.compare(at, 1, "#") == 0) at = text.find('\n', at) + 1;
    return at;
  }

  TemporaryDirectory folder_;
  std::string script_;
  std::string expected_;
};

// Every "--word" of an argument list that is a flag, told from a value by the server's own table.
void expect_only_known_flags(const ServerTable& table, const ServerCommand& command) {
  for (const ExportLine& line : command.lines) {
    if (line.setting == "model" || line.setting == "served_name") continue;
    for (const std::string& word : line.arguments)
      if (word.starts_with("--")) {
        EXPECT_TRUE(table.knows_flag(word)) << table.server << " " << word;
      }
  }
}

void expect_every_knob_once(const LaunchProfile& profile, const ServerCommand& command) {
  std::multiset<std::string> seen;
  for (const ExportLine& line : command.lines)
    if (!line.knob.empty()) seen.insert(line.knob);
  for (const NoEquivalent& lost : command.no_equivalent)
    if (!lost.knob.empty()) seen.insert(lost.knob);
  for (const Unsaid& unsaid : command.unsaid)
    if (!unsaid.knob.empty()) seen.insert(unsaid.knob);
  std::multiset<std::string> expected;
  for (const auto& [knob, value] : profile.recommended.configuration) expected.insert(knob);
  EXPECT_EQ(seen, expected);
}

TEST(ExportFormats, TenThousandRandomProfilesLoseNothingAndSurviveTheShell) {
  constexpr int profiles = 10000;
  constexpr int in_one_shell = 500;
  std::mt19937_64 random(20261130);
  std::set<std::string> flags_seen;
  for (int first = 0; first < profiles; first += in_one_shell) {
    ShellBatch batch;
    for (int i = 0; i < in_one_shell; ++i) {
      const LaunchProfile profile = random_profile(random);
      const ServerTable& table = server_tables()[random() % server_tables().size()];
      ExportInputs inputs = hostile_inputs(hostile[random() % hostile.size()]);
      inputs.take_nearest = random() % 2 == 0;
      if (random() % 2 == 0) inputs.model->architecture = "Llama4ForConditionalGeneration";
      const ServerCommand command = translate(profile, table, knob_names(), inputs);
      expect_only_known_flags(table, command);
      expect_every_knob_once(profile, command);
      for (const std::string& word : command.arguments())
        if (word.starts_with("--")) flags_seen.insert(word);
      const std::string text = export_text(command, ExportFormat::shell, container_of(table));
      batch.add(command, text);
      if (profile.synthetic_weights) {
        EXPECT_TRUE(text.starts_with("# SYNTHETIC WEIGHTS"));
      }
      ASSERT_FALSE(HasFailure()) << text;
    }
    batch.check();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(flags_seen.size(), 40U);
  for (const char* const flag : {"--enable-expert-cache", "--expert-cache-size", "--disable-quantization"})
    EXPECT_FALSE(flags_seen.contains(flag));
}

// What Compose and Kubernetes make of a text: a doubled dollar is one, a single one would be expanded.
std::string undoubled(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') {
      EXPECT_TRUE(i + 1 < text.size() && text[i + 1] == '$') << text;
      ++i;
    }
    result += text[i];
  }
  return result;
}

Words words_of(const YAML::Node& node) {
  Words words;
  for (const YAML::Node& word : node) words.push_back(undoubled(word.as<std::string>()));
  return words;
}

Words in_container(const ServerCommand& command, const ServerTable& table) {
  Words words = command.arguments();
  if (!command.config().is_null())
    words.insert(words.end(), {command.config_flag, "/etc/moetune/moetune-server.yaml"});
  words.insert(words.end(), table.listen.begin(), table.listen.end());
  return words;
}

TEST(ExportFormats, HostileTextsAreInertInEveryFormat) {
  std::mt19937_64 random(7);
  ShellBatch batch;
  for (const std::string& text : hostile)
    for (const ServerTable& table : server_tables()) {
      LaunchProfile profile = random_profile(random);
      profile.model = text;
      profile.workload.name = text;
      profile.hardware.device = random() % 2 == 0 ? "cpu" : text;
      profile.hardware.cpu_name = text;
      const ServerCommand command = translate(profile, table, knob_names(), hostile_inputs(text));
      ContainerFacts container = container_of(table);
      container.folders = {"/a" + text};

      batch.add(command, export_text(command, ExportFormat::shell, container));

      const std::string as_json = export_text(command, ExportFormat::json, container);
      const nlohmann::json document = nlohmann::json::parse(as_json);
      EXPECT_EQ(document["arguments"].get<Words>(), command.arguments());
      EXPECT_EQ(document["no_equivalent"].size(), command.no_equivalent.size());
      if (profile.synthetic_weights) {
        EXPECT_TRUE(as_json.starts_with("{\"caution\": \"SYNTHETIC WEIGHTS"));
      }

      const YAML::Node yaml = YAML::Load(export_text(command, ExportFormat::yaml, container));
      EXPECT_EQ(yaml["arguments"].as<Words>(), command.arguments());
      EXPECT_EQ(yaml["lines"].size(), command.lines.size());

      const YAML::Node compose = YAML::Load(export_text(command, ExportFormat::compose, container));
      const YAML::Node service = compose["services"]["moetune-x"];
      EXPECT_EQ(words_of(service["command"]), in_container(command, table));
      EXPECT_EQ(words_of(service["entrypoint"]), command.command);
      EXPECT_EQ(undoubled(service["volumes"][0]["source"].as<std::string>()), "/a" + text);
      if (!command.config().is_null()) {
        EXPECT_EQ(nlohmann::json::parse(undoubled(compose["configs"]["server"]["content"].as<std::string>())),
                  command.config());
      }

      const std::vector<YAML::Node> k8s = YAML::LoadAll(export_text(command, ExportFormat::k8s, container));
      ASSERT_EQ(k8s.size(), command.config().is_null() ? 2U : 3U);
      const YAML::Node box = k8s[0]["spec"]["template"]["spec"]["containers"][0];
      EXPECT_EQ(words_of(box["args"]), in_container(command, table));
      EXPECT_EQ(box["resources"]["limits"]["nvidia.com/gpu"].as<std::string>(), "1");
      EXPECT_EQ(k8s[0]["spec"]["template"]["spec"]["volumes"][1]["hostPath"]["path"].as<std::string>(),
                "/a" + text);
      EXPECT_EQ(box["ports"][0]["containerPort"].as<int>(), table.port);
      ASSERT_FALSE(HasFailure()) << table.server << " '" << text << "'";
    }
  batch.check();
}

TEST(ExportFormats, WhatNoProgramTakesIsRefused) {
  const std::string message =
      message_of<InputError>([] { exported("vllm", gpu_profile({}), hostile_inputs("\xff")); });
  EXPECT_TRUE(has_text(message, "is not UTF-8"));
  EXPECT_THROW(exported("vllm", gpu_profile({}), hostile_inputs(std::string("a\0b", 3))), InputError);
  EXPECT_THROW(exported("vllm", gpu_profile({}), hostile_inputs("--enforce-eager")), InputError);
}

TEST(ExportFormats, ShellTextOfTensorRtWritesItsConfigurationFile) {
  const ServerCommand command =
      exported("trtllm", gpu_profile({{"cuda_graph", "off"}, {"prefix_cache", "on"}}));
  EXPECT_EQ(
      command.config(),
      nlohmann::json::parse(R"({"cuda_graph_config":null,"kv_cache_config":{"enable_block_reuse":true}})"));
  EXPECT_TRUE(has_text(
      export_text(command, ExportFormat::shell, {}),
      R"(printf '%s\n' '{"cuda_graph_config":null,"kv_cache_config":{"enable_block_reuse":true}}' > moetune-server.yaml)"));
}

TEST(ExportFormats, EveryLineNamesItsEvidence) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i)
    for (const ServerTable& table : server_tables()) {
      const ServerCommand command = translate(random_profile(random), table, knob_names(), all_inputs());
      for (const ExportLine& line : command.lines)
        EXPECT_FALSE(line.evidence.empty()) << table.server << " " << line.setting;
      for (const NoEquivalent& lost : command.no_equivalent) {
        EXPECT_FALSE(lost.why.empty()) << table.server << " " << lost.knob;
        EXPECT_EQ(lost.nearest.empty(), lost.cost.empty()) << table.server << " " << lost.knob;
      }
    }
}

}  // namespace
}  // namespace moetune
