#include "tuner/export/formats.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/facts/error.h"
#include "tuner/export/yaml_text.h"
#include "tuner/printable.h"
#include "tuner/report/escape.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, ExportFormat>, 5> formats{{{"shell", ExportFormat::shell},
                                                                       {"json", ExportFormat::json},
                                                                       {"yaml", ExportFormat::yaml},
                                                                       {"compose", ExportFormat::compose},
                                                                       {"k8s", ExportFormat::k8s}}};
constexpr auto config_name = "moetune-server.yaml";
constexpr auto config_folder = "/etc/moetune";

std::string shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

// What a line says to the server, in one piece.
std::string said(const ExportLine& line) {
  std::vector<std::string> parts;
  for (const auto& [variable, value] : line.environment) parts.push_back(variable + "=" + shell_word(value));
  if (!line.arguments.empty()) parts.push_back(shell_words(line.arguments));
  if (!line.config.is_null()) parts.push_back(config_name + std::string(": ") + line.config.dump());
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string named(const std::string& knob, const std::string& setting, const std::string& value) {
  const std::string& name = knob.empty() ? setting : knob;
  return value.empty() ? name : name + "=" + value;
}

// Everything about the command but the command, a line each.
std::vector<std::string> comments_of(const ServerCommand& command) {
  std::vector<std::string> text;
  if (!command.caution.empty()) text.push_back(command.caution);
  text.push_back("moetune export: " + command.title);
  text.insert(text.end(), command.remarks.begin(), command.remarks.end());
  text.emplace_back("What each line rests on:");
  for (const ExportLine& line : command.lines)
    text.push_back(fmt::format(
        "  {}: {}{}{}", said(line),
        line.knob.empty() ? "" : named(line.knob, line.setting, line.value) + ", ", line.evidence,
        (line.note.empty() ? "" : "; " + line.note) + (line.checked.empty() ? "" : "; " + line.checked)));
  if (!command.no_equivalent.empty()) text.emplace_back("No equivalent on this server:");
  for (const NoEquivalent& lost : command.no_equivalent) {
    std::string words = fmt::format("  {}: {}", named(lost.knob, lost.setting, lost.value), lost.why);
    if (!lost.nearest.empty()) words += "; nearest: " + lost.nearest;
    if (!lost.nearest_arguments.empty()) words += " [" + shell_words(lost.nearest_arguments) + "]";
    if (!lost.cost.empty()) words += "; its cost: " + lost.cost;
    text.push_back(words + (lost.taken ? "; TAKEN (--nearest)" : ""));
  }
  if (!command.unsaid.empty()) text.emplace_back("Needs no flag:");
  for (const Unsaid& unsaid : command.unsaid)
    text.push_back(fmt::format("  {}: {}", named(unsaid.knob, unsaid.setting, unsaid.value), unsaid.why));
  return text;
}

std::vector<std::string> words_with_config(const ServerCommand& command, const std::string& config_path) {
  std::vector<std::string> words = command.arguments();
  if (!command.config().is_null()) words.insert(words.end(), {command.config_flag, config_path});
  return words;
}

std::string shell_text(const ServerCommand& command) {
  std::string text;
  for (const std::string& comment : comments_of(command)) text += "# " + printable(comment) + "\n";
  const nlohmann::json config = command.config();
  if (!config.is_null())
    text += fmt::format("printf '%s\\n' {} > {}\n", shell_word(config.dump()), config_name);
  for (const auto& [variable, value] : command.environment())
    text += variable + "=" + shell_word(value) + " ";
  text += shell_words(command.command);
  // One flag with its values a line.
  for (const std::string& word : words_with_config(command, config_name))
    text += (word.starts_with("-") ? " \\\n  " : " ") + shell_word(word);
  return text + "\n";
}

// Compose and Kubernetes expand $NAME and $(NAME); a doubled $ is one.
std::string with_doubled_dollars(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '$' ? std::string("$$") : std::string(1, c);
  return result;
}

std::vector<std::string> with_doubled_dollars(std::vector<std::string> texts) {
  for (std::string& text : texts) text = with_doubled_dollars(text);
  return texts;
}

std::vector<std::string> container_arguments(const ServerCommand& command, const ContainerFacts& container) {
  std::vector<std::string> words =
      words_with_config(command, fmt::format("{}/{}", config_folder, config_name));
  words.insert(words.end(), container.listen.begin(), container.listen.end());
  return with_doubled_dollars(words);
}

std::string compose_text(const ServerCommand& command, const ContainerFacts& container) {
  Json service = {{"image", with_doubled_dollars(container.image)},
                  {"entrypoint", with_doubled_dollars(command.command)},
                  {"command", container_arguments(command, container)},
                  {"ports", Json::array({fmt::format("{0}:{0}", container.port)})},
                  {"ipc", "host"}};
  for (const auto& [variable, value] : command.environment())
    service["environment"][variable] = with_doubled_dollars(value);
  for (const std::string& folder : container.folders)
    service["volumes"].push_back({{"type", "bind"},
                                  {"source", with_doubled_dollars(folder)},
                                  {"target", with_doubled_dollars(folder)},
                                  {"read_only", true}});
  if (container.gpus > 0)
    service["deploy"]["resources"]["reservations"]["devices"] = Json::array(
        {{{"driver", "nvidia"}, {"count", container.gpus}, {"capabilities", Json::array({"gpu"})}}});
  Json document;
  const nlohmann::json config = command.config();
  if (!config.is_null())
    service["configs"] =
        Json::array({{{"source", "server"}, {"target", fmt::format("{}/{}", config_folder, config_name)}}});
  document["services"][container.name] = std::move(service);
  if (!config.is_null()) document["configs"]["server"]["content"] = with_doubled_dollars(config.dump());
  return yaml_text(document, comments_of(command));
}

std::string k8s_text(const ServerCommand& command, const ContainerFacts& container) {
  const Json labels = {{"app", container.name}};
  Json box = {{"name", "server"},
              {"image", container.image},
              {"command", with_doubled_dollars(command.command)},
              {"args", container_arguments(command, container)},
              {"ports", Json::array({{{"containerPort", container.port}}})}};
  for (const auto& [variable, value] : command.environment())
    box["env"].push_back({{"name", variable}, {"value", with_doubled_dollars(value)}});
  if (container.gpus > 0) box["resources"]["limits"]["nvidia.com/gpu"] = std::to_string(container.gpus);
  Json volumes = Json::array();
  const auto mount = [&](const std::string& name, const std::string& path, Json source) {
    source["name"] = name;
    volumes.push_back(std::move(source));
    box["volumeMounts"].push_back({{"name", name}, {"mountPath", path}, {"readOnly", true}});
  };
  mount("memory", "/dev/shm", {{"emptyDir", {{"medium", "Memory"}}}});
  box["volumeMounts"].back().erase("readOnly");
  for (std::size_t i = 0; i < container.folders.size(); ++i)
    mount("files-" + std::to_string(i), container.folders[i],
          {{"hostPath", {{"path", container.folders[i]}}}});
  const nlohmann::json config = command.config();
  if (!config.is_null()) mount("server", config_folder, {{"configMap", {{"name", container.name}}}});
  const Json deployment = {{"apiVersion", "apps/v1"},
                           {"kind", "Deployment"},
                           {"metadata", {{"name", container.name}}},
                           {"spec",
                            {{"replicas", 1},
                             {"selector", {{"matchLabels", labels}}},
                             {"template",
                              {{"metadata", {{"labels", labels}}},
                               {"spec", {{"containers", Json::array({box})}, {"volumes", volumes}}}}}}}};
  const Json service = {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", {{"name", container.name}}},
      {"spec",
       {{"selector", labels},
        {"ports", Json::array({{{"port", container.port}, {"targetPort", container.port}}})}}}};
  std::string text = yaml_text(deployment, comments_of(command)) + "---\n" + yaml_text(service, {});
  if (!config.is_null())
    text += "---\n" + yaml_text({{"apiVersion", "v1"},
                                 {"kind", "ConfigMap"},
                                 {"metadata", {{"name", container.name}}},
                                 {"data", {{config_name, config.dump()}}}},
                                {});
  return text;
}

// "caution" stands on the first line.
std::string json_text(const ServerCommand& command) {
  std::string text = export_document(command).dump(2);
  return text.replace(0, text.find('"'), "{") + "\n";
}

}  // namespace

std::vector<std::string> export_format_names() {
  std::vector<std::string> names;
  for (const auto& [name, format] : formats) names.emplace_back(name);
  return names;
}

ExportFormat export_format_named(const std::string& flag, const std::string& name) {
  for (const auto& [known, format] : formats)
    if (name == known) return format;
  throw InputError(flag, "'" + name + "'", fmt::format("{}", fmt::join(export_format_names(), ", ")));
}

nlohmann::ordered_json export_document(const ServerCommand& command) {
  Json document;
  if (!command.caution.empty()) document["caution"] = command.caution;
  document["title"] = command.title;
  document["remarks"] = command.remarks;
  document["command"] = command.command;
  document["arguments"] = command.arguments();
  document["environment"] = command.environment();
  document["config_flag"] = command.config_flag.empty() ? Json() : Json(command.config_flag);
  document["config"] = Json::parse(command.config().dump());
  document["lines"] = Json::array();
  for (const ExportLine& line : command.lines)
    document["lines"].push_back({{"knob", line.knob.empty() ? Json() : Json(line.knob)},
                                 {"setting", line.setting},
                                 {"value", line.value},
                                 {"arguments", line.arguments},
                                 {"environment", line.environment},
                                 {"config", Json::parse(line.config.dump())},
                                 {"evidence", line.evidence},
                                 {"on_this_server", "hypothesis"},
                                 {"note", line.note},
                                 {"checked", line.checked.empty() ? Json() : Json(line.checked)}});
  document["no_equivalent"] = Json::array();
  for (const NoEquivalent& lost : command.no_equivalent)
    document["no_equivalent"].push_back({{"knob", lost.knob.empty() ? Json() : Json(lost.knob)},
                                         {"setting", lost.setting},
                                         {"value", lost.value},
                                         {"why", lost.why},
                                         {"nearest", lost.nearest},
                                         {"nearest_arguments", lost.nearest_arguments},
                                         {"cost", lost.cost},
                                         {"taken", lost.taken}});
  document["needs_no_flag"] = Json::array();
  for (const Unsaid& unsaid : command.unsaid)
    document["needs_no_flag"].push_back({{"knob", unsaid.knob.empty() ? Json() : Json(unsaid.knob)},
                                         {"setting", unsaid.setting},
                                         {"value", unsaid.value},
                                         {"why", unsaid.why}});
  return document;
}

std::string export_text(const ServerCommand& command, ExportFormat format, const ContainerFacts& container) {
  switch (format) {
    case ExportFormat::shell:
      return shell_text(command);
    case ExportFormat::json:
      return json_text(command);
    case ExportFormat::yaml: {
      const std::vector<std::string> comments = comments_of(command);
      return yaml_text(export_document(command), {comments.front()});
    }
    case ExportFormat::compose:
      return compose_text(command, container);
    case ExportFormat::k8s:
      return k8s_text(command, container);
  }
  return "";
}

}  // namespace moetune
