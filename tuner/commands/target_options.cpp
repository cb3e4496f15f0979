#include "tuner/commands/target_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/probe.h"
#include "tuner/commands/quantities.h"

namespace moetune {
namespace {

constexpr double usual_trial_limit_seconds = 600.0;
// A small budget does not end a trial that a busy machine only slows down; nor does who asks for ten seconds
// wait for a minute.
constexpr double least_trial_limit_seconds = 30.0;
constexpr double enough_trial_limit_seconds = 60.0;
constexpr double budgets_waited_for = 3.0;
constexpr double most_budget_share = 1.0 / 3.0;  // of a search, on one configuration
// Beyond it the kernel would soon choose a victim itself, and it may choose the tuner that keeps the log.
constexpr double usual_memory_share = 0.97;

std::string parse_target(const std::string& flag, const std::string& text) {
  if (text == "engine" || text == "synthetic") return text;
  throw InputError(flag, "'" + text + "'", "engine, synthetic");
}

double least_limit(double budget_seconds) {
  return std::clamp(budgets_waited_for * budget_seconds, least_trial_limit_seconds,
                    enough_trial_limit_seconds);
}

}  // namespace

double TargetOptions::run_limit_seconds(double latency_seconds, double budget_seconds) const {
  double limit = trial_limit_seconds;
  if (limit <= 0.0) {
    limit = usual_trial_limit_seconds;
    if (budget_seconds > 0.0)
      limit = std::clamp(most_budget_share * budget_seconds, least_limit(budget_seconds), limit);
    limit = std::max(limit, 4.0 * latency_seconds);
  }
  return limit / 2.0;
}

TrialRunnerSettings TargetOptions::runner_settings(const Study& study, double latency_seconds,
                                                   double budget_seconds) const {
  TrialRunnerSettings settings;
  settings.setup = study.worker_setup;
  double usual = usual_trial_limit_seconds;
  if (budget_seconds > 0.0) usual = std::clamp(budget_seconds, least_limit(budget_seconds), usual);
  settings.trial_limit_seconds =
      trial_limit_seconds > 0.0 ? trial_limit_seconds : std::max(usual, 4.0 * latency_seconds);
  settings.host_memory_limit_bytes =
      host_memory_limit_bytes > 0
          ? host_memory_limit_bytes
          : static_cast<std::int64_t>(usual_memory_share * static_cast<double>(usable_memory_bytes()));
  settings.setup_limit_seconds = std::max(settings.setup_limit_seconds, 3.0 * settings.trial_limit_seconds);
  return settings;
}

std::vector<CLI::Option*> add_target_options(CLI::App& command, TargetOptions& target) {
  add_parsed_option(
      command, "--trial-limit", target.trial_limit_seconds, parse_duration_seconds, "90s|20m|2h",
      "A configuration that takes longer is timed_out (default: 10m; tune: its budget, 10m at most, or where "
      "that is more three budgets, from 30s to 60s; where two runs of the workload will not end in a third "
      "of that, it is given up at once)");
  add_parsed_option(
      command, "--host-memory-limit", target.host_memory_limit_bytes, parse_bytes, "SIZE",
      "A configuration that takes more host memory is out_of_memory (default: 97 % of what there is)");
  return {
      hidden(add_parsed_option(command, "--inject-delay", target.injected_delay_ms, parse_milliseconds,
                               "20ms", "Waited for in every layer while timing, to see whether it is found")),
      hidden(add_parsed_option(command, "--target", target.target, parse_target, "engine|synthetic",
                               "What is measured", "engine")),
      hidden(add_text_option(command, "--synthetic", target.synthetic, "JSON",
                             "Settings of the synthetic target; see synthetic_target.h"))};
}

std::vector<Study> studies_of(const CommonOptions& common, const TargetOptions& target,
                              double latency_seconds) {
  if (target.target == "synthetic") return {synthetic_study(common, target.synthetic)};
  if (!target.synthetic.empty())
    throw InputError("--synthetic", "given without --target synthetic", "both or neither");
  std::vector<Study> studies = engine_studies(common, latency_seconds);
  if (target.injected_delay_ms == 0.0) return studies;
  for (Study& study : studies) {
    study.worker_setup.at("engine")["injected_delay_ms"] = target.injected_delay_ms;
    study.conditions["injected_delay_ms"] = target.injected_delay_ms;
    study.warnings.push_back(fmt::format(
        "every layer waits {:g} ms longer than it has to (--inject-delay): no time below is the machine's",
        target.injected_delay_ms));
  }
  return studies;
}

}  // namespace moetune
