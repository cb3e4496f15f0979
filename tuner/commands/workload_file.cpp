#include "tuner/commands/workload_file.h"

#include "engine/facts/error.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {

constexpr std::int64_t longest_text = 1 << 24;  // tokens; far beyond any model, small enough for every sum
constexpr std::int64_t most_sequences = 1024;

int integer_or(const JsonFields& fields, std::string_view name, std::int64_t low, std::int64_t high, int otherwise) {
  return fields.has(name) ? static_cast<int>(fields.integer(name, low, high)) : otherwise;
}

}  // namespace

nlohmann::json to_json_value(const Workload& workload) {
  nlohmann::json object = {{"name", workload.name},
                           {"prompt_tokens", workload.prompt_tokens},
                           {"output_tokens", workload.output_tokens},
                           {"sequences", workload.sequences},
                           {"rounds", workload.rounds},
                           {"round_prompt_tokens", workload.round_prompt_tokens},
                           {"typed_pieces", workload.typed_pieces},
                           {"seed", workload.seed}};
  if (!workload.slo.metric.empty()) object["slo"] = {{"metric", workload.slo.metric}, {"limit_ms", workload.slo.limit_ms}};
  return object;
}

Workload workload_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"name", "prompt_tokens", "output_tokens", "sequences", "rounds", "round_prompt_tokens", "typed_pieces", "seed", "slo"});
  Workload workload;
  workload.name = fields.text("name");
  workload.prompt_tokens = static_cast<int>(fields.integer("prompt_tokens", 1, longest_text));
  workload.output_tokens = static_cast<int>(fields.integer("output_tokens", 1, longest_text));
  workload.sequences = integer_or(fields, "sequences", 1, most_sequences, 1);
  workload.rounds = integer_or(fields, "rounds", 1, 64, 1);
  workload.round_prompt_tokens = integer_or(fields, "round_prompt_tokens", 0, longest_text / 64, 0);
  workload.typed_pieces = integer_or(fields, "typed_pieces", 1, workload.prompt_tokens, 1);
  if (fields.has("seed")) workload.seed = fields.unsigned_integer("seed");
  if (workload.rounds > 1 && workload.round_prompt_tokens == 0)
    throw InputError(fields.place("round_prompt_tokens"), "0 with " + std::to_string(workload.rounds) + " rounds", "1 or more");
  if (fields.has("slo")) {
    const JsonFields slo(fields.object("slo"), fields.place("slo"));
    slo.only({"metric", "limit_ms"});
    workload.slo = {.metric = slo.text("metric"), .limit_ms = slo.number("limit_ms")};
    if (workload.slo.limit_ms <= 0.0) throw InputError(slo.place("limit_ms"), shown(slo.required("limit_ms")), "a time above 0");
  }
  return workload;
}

}  // namespace moetune
