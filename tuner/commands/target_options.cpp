#include "tuner/commands/target_options.h"

#include <algorithm>

#include "engine/facts/error.h"
#include "tuner/commands/quantities.h"

namespace moetune {
namespace {

constexpr double usual_trial_limit_seconds = 600.0;

std::string parse_target(const std::string& flag, const std::string& text) {
  if (text == "engine" || text == "synthetic") return text;
  throw InputError(flag, "'" + text + "'", "engine, synthetic");
}

}  // namespace

TrialRunnerSettings TargetOptions::runner_settings(const Study& study, double latency_seconds) const {
  TrialRunnerSettings settings;
  settings.setup = study.worker_setup;
  settings.trial_limit_seconds =
      trial_limit_seconds > 0.0 ? trial_limit_seconds : std::max(usual_trial_limit_seconds, 4.0 * latency_seconds);
  settings.setup_limit_seconds = std::max(settings.setup_limit_seconds, 3.0 * settings.trial_limit_seconds);
  return settings;
}

std::vector<CLI::Option*> add_target_options(CLI::App& command, TargetOptions& target) {
  add_parsed_option(command, "--trial-limit", target.trial_limit_seconds, parse_duration_seconds, "90s|20m|2h",
                    "A configuration that takes longer is timed_out", "10m");
  return {hidden(add_parsed_option(command, "--target", target.target, parse_target, "engine|synthetic", "What is measured", "engine")),
          hidden(add_text_option(command, "--synthetic", target.synthetic, "JSON",
                                 "Settings of the synthetic target; see synthetic_target.h"))};
}

std::vector<Study> studies_of(const CommonOptions& common, const TargetOptions& target, double latency_seconds) {
  if (target.target == "synthetic") return {synthetic_study(common, target.synthetic)};
  if (!target.synthetic.empty()) throw InputError("--synthetic", "given without --target synthetic", "both or neither");
  return engine_studies(common, latency_seconds);
}

}  // namespace moetune
