// The search over the synthetic target as a program of its own, so that tests can kill it, fill its disk and
// run it twice:
//   tune_synthetic tune RUN_DIRECTORY SETTINGS.json [--resume]
//   tune_synthetic worker                                       (what the first one starts)
// settings: {"searcher": "walking", "seed": 1, "max_trials": 20, "budget_seconds": 10, "limit_seconds": 5,
// "target": {...}, "final_round": true} Everything but times is a function of the settings. Exit codes as the
// product's.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/tuner/support/walking_searcher.h"
#include "tuner/accuracy_gate.h"
#include "tuner/choose.h"
#include "tuner/json_fields.h"
#include "tuner/progress.h"
#include "tuner/run_directory.h"
#include "tuner/search_space.h"
#include "tuner/targets/in_flight_signal.h"
#include "tuner/targets/synthetic_target.h"
#include "tuner/tune.h"
#include "tuner/worker_main.h"

namespace moetune {
namespace {

SearchSpace synthetic_space() {
  const auto parameter = [](const char* name, Parameter::Kind kind, std::vector<std::string> values) {
    Parameter made;
    made.name = name;
    made.kind = kind;
    made.values = std::move(values);
    return made;
  };
  SearchSpace space;
  space.name = "synthetic";
  space.parameters = {parameter("top_k", Parameter::Kind::ordinal, {"1", "2", "3", "4", "5", "6", "7", "8"}),
                      parameter("expert_quant", Parameter::Kind::categorical, {"bf16", "int8", "int4"}),
                      parameter("expert_cache", Parameter::Kind::ordinal, {"0.25", "0.5", "1"})};
  return space;
}

int tune_command(const std::string& run_path, const std::string& settings_file, bool resume) {
  const Interruption interruption;
  const nlohmann::json settings = read_json_file(settings_file);
  const JsonFields fields(settings, settings_file);
  const SearchSpace space = synthetic_space();
  const LegalSet legal = legal_configurations(space, {});
  const std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean,device_bytes");

  TuneRequest request;
  request.default_configuration.values = {{"top_k", "8"}, {"expert_quant", "bf16"}, {"expert_cache", "1"}};
  request.objection = [](const Configuration& configuration) -> std::optional<std::string> {
    if (configuration.values.at("top_k") == "2" && configuration.values.at("expert_quant") == "bf16")
      return "needs 12 bytes more memory";
    return std::nullopt;
  };
  request.objectives = objectives;
  request.seed = fields.unsigned_integer("seed");
  if (fields.has("max_trials")) request.max_trials = fields.integer("max_trials", 1, 1000);
  if (fields.has("budget_seconds")) request.budget_seconds = fields.number("budget_seconds");
  request.different_configurations = count_with(legal, space, request.default_configuration);
  if (fields.has("final_round") && fields.flag("final_round"))
    request.finalists = [&](std::span<const Trial> trials) {
      return finalists(
          {trials, gate_named("none"), objectives, request.default_configuration, accuracy_parameters(), {}});
    };

  std::unique_ptr<Searcher> searcher;
  if (fields.text("searcher") == "walking") {
    std::vector<Configuration> all;
    for (const std::uint64_t rank : legal.ranks) all.push_back(space.at(rank));
    searcher = std::make_unique<WalkingSearcher>(std::move(all), request.seed);
  } else {
    searcher =
        make_searcher(fields.text("searcher"),
                      {.space = space, .legal = legal, .objectives = objectives, .seed = request.seed});
  }

  RunRequest study;
  study.model = "synthetic";
  study.space = space.name;
  study.space_hash = space.hash();
  study.searcher = fields.text("searcher");
  study.seed = request.seed;
  study.default_configuration = to_json_value(request.default_configuration);
  const nlohmann::json hardware{{"device", "none"}};
  const RunDirectory run = resume ? RunDirectory::resume(run_path, study, hardware)
                                  : RunDirectory::create(run_path, study, hardware);

  Progress progress(stderr, terminal_of(STDERR_FILENO), false);
  request.on_status = [&](const TuneStatus& status) { progress.show(status); };
  request.on_message = [&](const std::string& line) { progress.message(line); };
  if (!run.notice().empty()) progress.message(run.notice());

  TrialRunnerSettings runner;
  runner.setup = fields.has("target") ? fields.required("target") : nlohmann::json::object();
  request.timing_setup = runner.setup;
  request.timing_setup["timing_only"] = true;
  if (fields.has("limit_seconds")) runner.trial_limit_seconds = fields.number("limit_seconds");
  TrialLog log(run.trials_file());
  const TuneResult result = tune(request, *searcher, log, runner, interruption);
  progress.message(result.why);
  return static_cast<int>(result.stop == TuneResult::Stop::interrupted ? ExitCode::interrupted
                                                                       : ExitCode::done);
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "worker") {
    answer_where_signal();
    return serve_worker(
        [](const nlohmann::json& setup, const ProgressWords&) { return make_synthetic_target(setup); });
  }
  if (arguments.size() >= 3 && arguments[0] == "tune")
    return tune_command(arguments[1], arguments[2], arguments.size() > 3 && arguments[3] == "--resume");
  throw InputError("tune_synthetic", "unknown arguments", "tune RUN SETTINGS [--resume], worker");
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using moetune::ExitCode;
  try {
    return moetune::main_of({argv + 1, argv + argc});
  } catch (const moetune::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(ExitCode::our_fault);
  }
}
