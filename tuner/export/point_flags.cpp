#include "tuner/export/point_flags.h"

#include <utility>

#include "engine/facts/error.h"
#include "tuner/export/comments.h"
#include "tuner/report/escape.h"

namespace moetune {
namespace {

// Stands where a command names its model; the line with it is left out.
constexpr auto any_model = "MODEL";

PointFlags flags_on(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
                    const std::optional<ExportModel>& model) {
  PointFlags flags{.server = table.server, .name = table.name, .text = "", .lost = {}, .problem = ""};
  try {
    const ServerCommand command = translate(
        profile, table, names,
        {.given = {{"server_model", any_model}, {"gguf", any_model}}, .server_version = "", .model = model});
    const auto add = [&](const std::string& words) { flags.text += (flags.text.empty() ? "" : " ") + words; };
    for (const auto& [variable, value] : command.environment()) add(variable + "=" + shell_word(value));
    for (const ExportLine& line : command.lines) {
      if (line.setting == "model") continue;
      if (!line.arguments.empty()) add(words_for_shell(line.arguments));
    }
    if (const nlohmann::json config = command.config(); !config.is_null())
      add(command.config_flag + " " + shell_word(config.dump()));
    for (const NoEquivalent& lost : command.no_equivalent)
      flags.lost.push_back((lost.knob.empty() ? lost.setting : lost.knob) + "=" + lost.value + ": " +
                           lost.why);
  } catch (const InputError& error) {
    flags = {.server = table.server, .name = table.name, .text = "", .lost = {}, .problem = error.what()};
  }
  return flags;
}

}  // namespace

std::vector<PointFlags> flags_of_point(LaunchProfile profile, const ProfilePoint& point,
                                       const std::vector<ServerTable>& tables, const KnobNames& names,
                                       const std::optional<ExportModel>& model) {
  profile.recommended = point;
  std::vector<PointFlags> all;
  for (const ServerTable& table : tables) all.push_back(flags_on(profile, table, names, model));
  return all;
}

}  // namespace moetune
