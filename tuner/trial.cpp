#include "tuner/trial.h"

#include <array>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;
constexpr std::array all_outcomes{Outcome::ok,           Outcome::infeasible, Outcome::out_of_memory,
                                  Outcome::wrong_output, Outcome::timed_out,  Outcome::crashed};
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

FinalTurn turn_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"after", "finalists", "pass"});
  FinalTurn turn{.after = fields.integer("after", 1, largest),
                 .finalists = {},
                 .pass = fields.integer("pass", 0, largest)};
  for (const json& number : fields.array("finalists")) {
    if (!number.is_number_integer() || number < 0 || number >= turn.after)
      throw InputError(fields.place("finalists"), shown(number), "numbers of trials before the round");
    turn.finalists.push_back(number.get<std::int64_t>());
  }
  return turn;
}
}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::infeasible:
      return "infeasible";
    case Outcome::out_of_memory:
      return "out_of_memory";
    case Outcome::wrong_output:
      return "wrong_output";
    case Outcome::timed_out:
      return "timed_out";
    case Outcome::crashed:
      return "crashed";
  }
  throw std::logic_error("no such outcome");
}

Outcome outcome_named(std::string_view name, const std::string& where) {
  std::string accepted;
  for (const Outcome outcome : all_outcomes) {
    if (name == name_of(outcome)) return outcome;
    accepted.append(accepted.empty() ? "" : ", ").append(name_of(outcome));
  }
  throw InputError(where, shown(std::string(name)), accepted);
}

json to_json_value(const Trial& trial) {
  json object{{"trial", trial.number},
              {"configuration", to_json_value(trial.configuration)},
              {"outcome", name_of(trial.outcome)},
              {"reason", trial.reason},
              {"metrics", to_json_value(trial.metrics)},
              {"seed", trial.seed},
              {"seconds", trial.seconds},
              {"started", trial.started}};
  if (trial.clock_jump_seconds) object["clock_jump_seconds"] = *trial.clock_jump_seconds;
  if (trial.turn)
    object["final_round"] = {
        {"after", trial.turn->after}, {"finalists", trial.turn->finalists}, {"pass", trial.turn->pass}};
  if (trial.is_recording) object["recording"] = true;
  return object;
}

Trial trial_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"trial", "configuration", "outcome", "reason", "metrics", "seed", "seconds", "started",
               "final_round", "recording", "clock_jump_seconds"});
  Trial trial;
  trial.number = fields.integer("trial", 0, largest);
  trial.configuration =
      configuration_from_json(fields.object("configuration"), fields.place("configuration"));
  attempt([&] { trial.outcome = outcome_named(fields.text("outcome"), fields.place("outcome")); });
  trial.reason = fields.text("reason");
  trial.metrics = metrics_from_json(fields.object("metrics"), fields.place("metrics"));
  trial.seed = fields.unsigned_integer("seed");
  trial.seconds = fields.number("seconds");
  if (trial.seconds < 0.0) refuse(fields.place("seconds"), shown(trial.seconds), "0 or more");
  trial.started = fields.text("started");
  if (fields.has("final_round"))
    trial.turn = turn_from_json(fields.object("final_round"), fields.place("final_round"));
  if (fields.has("clock_jump_seconds")) trial.clock_jump_seconds = fields.number("clock_jump_seconds");
  trial.is_recording = fields.has("recording") && fields.flag("recording");
  if (trial.is_recording && trial.turn)
    refuse(fields.place("recording"), "true beside final_round", "one of them");
  return trial;
}

}  // namespace moetune
