#include "tuner/export/command_head.h"

#include <cctype>

#include <fmt/format.h>

#include "tuner/serving/confirmation.h"

namespace moetune {
namespace {

// Letters and digits alone: "Qwen/Qwen3-30B-A3B" and "qwen3_30b_a3b" name one model.
std::string plain(const std::string& name) {
  std::string letters;
  for (const unsigned char letter : name)
    if (std::isalnum(letter)) letters += static_cast<char>(std::tolower(letter));
  return letters;
}

// Where what the server is to load is called otherwise than what was measured; empty: it is not, or nothing
// is known.
std::string other_model_words(const LaunchProfile& profile, const ExportInputs& inputs) {
  const auto given = inputs.given.find("server_model");
  if (given == inputs.given.end() || given->second.empty()) return "";
  const std::string measured = plain(profile.model.substr(0, profile.model.find(':')));
  if (measured.empty() || plain(given->second).find(measured) != std::string::npos) return "";
  return fmt::format(
      "Measured on {}; by its name --server-model {} may be another model, of which this profile says "
      "nothing",
      profile.model, given->second);
}

}  // namespace

ServerCommand command_head(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
                           const ExportInputs& inputs) {
  ServerCommand result;
  const bool folded = profile.model.find("fold=") != std::string::npos;
  if (profile.synthetic_weights)
    result.caution = "SYNTHETIC WEIGHTS: generated, so that accuracy is unknown and only speed was measured";
  if (folded)
    result.caution +=
        std::string(result.caution.empty() ? "" : "; ") + "FOLDED: several layers shared one set of weights";
  if (!result.caution.empty()) result.caution += " (" + profile.model + ")";
  if (is_refuted(profile.confirmations))
    result.caution += std::string(result.caution.empty() ? "" : "; ") +
                      "REFUTED by a server that ran this profile: see below";
  result.title = fmt::format("{}, workload {}, for {}", profile.model, profile.workload.name, table.name);
  result.command = table.command;
  result.config_flag = table.config_flag;
  result.remarks.push_back(
      fmt::format("Flags as of {}, version {}; source: {}", table.name, table.version, table.source));
  if (!inputs.server_version.empty())
    result.remarks.push_back(
        fmt::format("Version {} was asked for: what is known to differ there is left out, nothing else was "
                    "checked for it; --check asks the server itself",
                    inputs.server_version));
  const bool on_gpu = profile.hardware.device != "cpu";
  result.remarks.push_back(
      fmt::format("Measured by moetune's own engine on {}; what {} makes of it is a hypothesis until "
                  "'moetune confirm' has measured that",
                  on_gpu ? profile.hardware.device : "a CPU, " + profile.hardware.cpu_name, table.name));
  for (const std::string& line : confirmation_lines(profile.confirmations)) result.remarks.push_back(line);
  if (!on_gpu && table.device == "gpu")
    result.remarks.push_back(
        table.name + " runs on GPUs, this profile was measured on a CPU: its times say nothing about them");
  if (const std::string words = other_model_words(profile, inputs); !words.empty())
    result.remarks.push_back(words);
  if (inputs.model)
    if (const TopKKey* const family = names.family_of(inputs.model->architecture);
        family != nullptr && !family->note.empty())
      result.remarks.push_back(family->family + ": " + family->note);
  return result;
}

}  // namespace moetune
