#include "tuner/commands/baseline_program.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

constexpr auto option = "--baseline-program";
constexpr auto accepted =
    "a moetune program whose worker speaks this one's protocol, such as last night's build";

}  // namespace

nlohmann::json without_planted(nlohmann::json setup) {
  const std::string target = setup.at("target").get<std::string>();
  nlohmann::json& own = setup.at(target);
  if (target == "engine") own["injected_delay_ms"] = 0.0;
  for (const char* planted : {"slower", "fail"}) own.erase(planted);
  return setup;
}

BaselineProgram::BaselineProgram(std::string file, TrialRunnerSettings settings, Configuration configuration,
                                 Objective objective)
    : file_(std::move(file)),
      settings_(std::move(settings)),
      configuration_(std::move(configuration)),
      objective_(std::move(objective)) {
  if (std::filesystem::is_directory(file_) || ::access(file_.c_str(), X_OK) != 0)
    throw InputError(option, "'" + file_ + "' is not there or cannot be run", accepted);
  settings_.worker_command = {std::filesystem::absolute(file_).string(), "worker"};
  settings_.setup = without_planted(std::move(settings_.setup));
  settings_.seat.reset();
}

bool BaselineProgram::measure(std::uint64_t seed, const Interruption& interruption) {
  if (!failure_.empty()) return true;
  std::optional<Trial> trial;
  try {
    TrialRunner runner(settings_, interruption);
    trial = runner.run(0, configuration_, seed);
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw InputError(option, fmt::format("'{}': {}", file_, error.what()), accepted);
  }
  if (!trial) return false;
  const auto found = trial->metrics.find(objective_.metric);
  if (trial->outcome != Outcome::ok)
    failure_ = fmt::format("{}: {}", name_of(trial->outcome), trial->reason);
  else if (found == trial->metrics.end() || !(found->second.value > 0.0))
    failure_ = "no " + objective_.metric;
  else
    rounds_.push_back(found->second.value);
  return true;
}

}  // namespace moetune
