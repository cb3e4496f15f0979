#include "tuner/worker_protocol.h"

#include <limits>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {
using nlohmann::json;
using namespace message;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// A message is an object with one field, its name.
json to_json(const Setup& setup) {
  return {{"setup", {{"tuner_pid", setup.tuner_pid}, {"document", setup.document}}}};
}
json to_json(const Measure& measure) {
  return {{"measure",
           {{"trial", measure.trial},
            {"configuration", to_json_value(measure.configuration)},
            {"seed", measure.seed}}}};
}
json to_json(const Hello& hello) {
  return {{"hello", {{"protocol", hello.protocol}, {"build", hello.build}}}};
}
json to_json(const Progress& progress) { return {{"progress", {{"text", progress.text}}}}; }
json to_json(const Ready&) { return {{"ready", json::object()}}; }
json to_json(const SetupFailed& failed) {
  return {{"setup_failed", {{"bad_input", failed.bad_input}, {"text", failed.text}}}};
}
json to_json(const Result& answer) {
  return {{"result",
           {{"trial", answer.trial},
            {"outcome", name_of(answer.result.outcome)},
            {"reason", answer.result.reason},
            {"metrics", to_json_value(answer.result.metrics)}}}};
}
json to_json(const Unusable& unusable) {
  return {
      {"unusable",
       {{"trial", unusable.trial}, {"out_of_memory", unusable.out_of_memory}, {"reason", unusable.reason}}}};
}

std::string line_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// Name and body of a message line.
struct Named {
  std::string name;
  json body;
};

Named named(std::string_view line, const std::string& where) {
  const json object = parse_json(line, where);
  if (!object.is_object() || object.size() != 1)
    throw InputError(where, shown(object), "an object with one field, the message's name");
  return {object.begin().key(), object.begin().value()};
}

}  // namespace

std::string to_line(const ToWorker& message) {
  return line_of(std::visit([](const auto& content) { return to_json(content); }, message));
}

std::string to_line(const FromWorker& message) {
  return line_of(std::visit([](const auto& content) { return to_json(content); }, message));
}

ToWorker to_worker_from_line(std::string_view line) {
  const std::string where = "message to the worker";
  const Named message = named(line, where);
  const JsonFields fields(message.body, where + ": " + message.name);
  if (message.name == "setup")
    return Setup{.tuner_pid = fields.integer("tuner_pid", 1, largest),
                 .document = fields.required("document")};
  if (message.name == "measure")
    return Measure{.trial = fields.integer("trial", 0, largest),
                   .configuration =
                       configuration_from_json(fields.object("configuration"), fields.place("configuration")),
                   .seed = fields.unsigned_integer("seed")};
  throw InputError(where, shown(message.name), "setup, measure");
}

FromWorker from_worker_from_line(std::string_view line) {
  const std::string where = "message from the worker";
  const Named message = named(line, where);
  const JsonFields fields(message.body, where + ": " + message.name);
  if (message.name == "hello")
    return Hello{.protocol = static_cast<int>(fields.integer("protocol", 0, std::numeric_limits<int>::max())),
                 .build = fields.text("build")};
  if (message.name == "progress") return Progress{.text = fields.text("text")};
  if (message.name == "ready") return Ready{};
  if (message.name == "setup_failed")
    return SetupFailed{.bad_input = fields.flag("bad_input"), .text = fields.text("text")};
  if (message.name == "result")
    return Result{
        .trial = fields.integer("trial", 0, largest),
        .result = {.outcome = outcome_named(fields.text("outcome"), fields.place("outcome")),
                   .reason = fields.text("reason"),
                   .metrics = metrics_from_json(fields.object("metrics"), fields.place("metrics"))}};
  if (message.name == "unusable")
    return Unusable{.trial = fields.integer("trial", 0, largest),
                    .out_of_memory = fields.flag("out_of_memory"),
                    .reason = fields.text("reason")};
  throw InputError(where, shown(message.name), "hello, progress, ready, setup_failed, result, unusable");
}

}  // namespace moetune
