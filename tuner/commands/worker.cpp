// moetune worker: the process in which tune and measure let configurations run. Nobody types this.
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "kernels/core_seat.h"
#include "tuner/commands/command.h"
#include "tuner/json_fields.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/in_flight_signal.h"
#include "tuner/targets/synthetic_target.h"
#include "tuner/worker_main.h"

namespace moetune {
namespace {

std::unique_ptr<Target> make_target(const nlohmann::json& setup, const ProgressWords& progress) {
  const JsonFields fields(setup, "worker setup");
  const std::string kind = fields.text("target");
  if (kind == "synthetic") return make_synthetic_target(fields.object("synthetic"));
  if (kind == "engine")
    return std::make_unique<EngineTarget>(
        engine_target_setup_from_json(fields.object("engine"), fields.place("engine")), progress);
  throw InputError(fields.place("target"), "'" + kind + "'", "engine, synthetic");
}

}  // namespace

Command add_worker_command(CLI::App& program) {
  CLI::App& command = add_subcommand(program, "worker", "", "", "");
  return {&command, [] {
            answer_where_signal();
            keep_threads_on_cores();  // what it measures must not depend on where its threads wander
            return static_cast<ExitCode>(serve_worker(make_target));
          }};
}

}  // namespace moetune
