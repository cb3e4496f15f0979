#include "tuner/json_facts.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

constexpr std::int64_t longest_text = 1 << 24;  // tokens; far beyond any model, small enough for every sum
constexpr std::int64_t most_rounds = 64;
constexpr std::size_t longest_name = 64;
constexpr double longest_pause_seconds = 3600.0;
constexpr std::int64_t most_cores = 1 << 20;

int integer_or(const JsonFields& fields, std::string_view name, std::int64_t low, std::int64_t high,
               int otherwise) {
  return fields.has(name) ? static_cast<int>(fields.integer(name, low, high)) : otherwise;
}

double number_between(const JsonFields& fields, std::string_view name, double low, double high) {
  const double number = fields.number(name);
  if (number < low || number > high)
    refuse(fields.place(name), shown(fields.required(name)), shown(low) + " to " + shown(high));
  return number;
}

double pause_or_none(const JsonFields& fields, std::string_view name) {
  return fields.has(name) ? number_between(fields, name, 0.0, longest_pause_seconds) : 0.0;
}

Slo slo_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"metric", "limit_ms"});
  const Slo slo{fields.text("metric"), fields.number("limit_ms")};
  const std::vector<std::string> metrics = slo_metrics();
  if (std::ranges::find(metrics, slo.metric) == metrics.end())
    refuse(fields.place("metric"), shown(fields.required("metric")),
           fmt::format("{}", fmt::join(metrics, ", ")));
  if (slo.limit_ms <= 0.0)
    refuse(fields.place("limit_ms"), shown(fields.required("limit_ms")), "a time above 0");
  return slo;
}

}  // namespace

json to_json_value(const HardwareFingerprint& hardware) {
  return {{"device", hardware.device},
          {"gpu_count", hardware.gpu_count},
          {"device_bytes", hardware.device_bytes},
          {"cpu_name", hardware.cpu_name},
          {"cpu_cores", hardware.cpu_cores},
          {"simd", hardware.simd},
          {"host_bytes", hardware.host_bytes},
          {"memory_gb_per_s", hardware.memory_gb_per_s},
          {"memory_rate_spread", hardware.memory_rate_spread},
          {"link_gb_per_s", hardware.link_gb_per_s},
          {"interconnect", hardware.interconnect},
          {"driver", hardware.driver},
          {"cuda", hardware.cuda},
          {"compute_capability", hardware.compute_capability},
          {"multiprocessors", hardware.multiprocessors},
          {"idle_watts", hardware.idle_watts},
          {"power_limit_watts", hardware.power_limit_watts},
          {"os", hardware.os},
          {"build", hardware.build}};
}

HardwareFingerprint hardware_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"device", "gpu_count", "device_bytes", "cpu_name", "cpu_cores", "simd", "host_bytes",
               "memory_gb_per_s", "memory_rate_spread", "link_gb_per_s", "interconnect", "driver", "cuda",
               "compute_capability", "multiprocessors", "idle_watts", "power_limit_watts", "os", "build"});
  constexpr double fastest_gb_per_s = 1e9;
  constexpr double most_watts = 1e6;
  HardwareFingerprint hardware;
  hardware.device = fields.text("device");
  hardware.gpu_count = static_cast<int>(fields.integer("gpu_count", 0, most_cores));
  hardware.device_bytes = fields.integer("device_bytes", 0, INT64_MAX);
  hardware.cpu_name = fields.text("cpu_name");
  hardware.cpu_cores = static_cast<int>(fields.integer("cpu_cores", 0, most_cores));
  hardware.simd = fields.text("simd");
  hardware.host_bytes = fields.integer("host_bytes", 0, INT64_MAX);
  hardware.memory_gb_per_s = number_between(fields, "memory_gb_per_s", 0.0, fastest_gb_per_s);
  if (fields.has("memory_rate_spread"))
    hardware.memory_rate_spread = number_between(fields, "memory_rate_spread", 0.0, 1.0);
  hardware.link_gb_per_s = number_between(fields, "link_gb_per_s", 0.0, fastest_gb_per_s);
  hardware.interconnect = fields.text("interconnect");
  hardware.driver = fields.text("driver");
  hardware.cuda = fields.text("cuda");
  // Runs of builds that knew no GPU do not have these.
  hardware.compute_capability = fields.text_or("compute_capability", "");
  hardware.multiprocessors = integer_or(fields, "multiprocessors", 0, most_cores, 0);
  if (fields.has("idle_watts")) hardware.idle_watts = number_between(fields, "idle_watts", 0.0, most_watts);
  if (fields.has("power_limit_watts"))
    hardware.power_limit_watts = number_between(fields, "power_limit_watts", 0.0, most_watts);
  hardware.os = fields.text("os");
  hardware.build = fields.text("build");
  return hardware;
}

json to_json_value(const Workload& workload) {
  json object = {{"name", workload.name},
                 {"prompt_tokens", workload.prompt_tokens},
                 {"output_tokens", workload.output_tokens},
                 {"sequences", workload.sequences},
                 {"rounds", workload.rounds},
                 {"round_prompt_tokens", workload.round_prompt_tokens},
                 {"tool_gap_seconds", workload.tool_gap_seconds},
                 {"typed_pieces", workload.typed_pieces},
                 {"piece_gap_seconds", workload.piece_gap_seconds},
                 {"prewarmed", workload.prewarmed},
                 {"poisson_arrivals", workload.poisson_arrivals},
                 {"seed", workload.seed}};
  if (workload.arrivals_per_s > 0.0) object["arrivals_per_s"] = workload.arrivals_per_s;
  if (!workload.slo.metric.empty())
    object["slo"] = {{"metric", workload.slo.metric}, {"limit_ms", workload.slo.limit_ms}};
  return object;
}

Workload workload_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"name", "prompt_tokens", "output_tokens", "sequences", "rounds", "round_prompt_tokens",
               "tool_gap_seconds", "typed_pieces", "piece_gap_seconds", "prewarmed", "poisson_arrivals",
               "arrivals_per_s", "seed", "slo"});
  Workload workload;
  workload.name = fields.text("name");
  // It becomes part of a path, and stands in every report.
  const bool is_plain = std::ranges::all_of(workload.name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (workload.name.empty() || workload.name.size() > longest_name || !is_plain)
    refuse(fields.place("name"), shown(fields.required("name")),
           fmt::format("1 to {} letters, digits, '-', '_' or '.'", longest_name));
  workload.prompt_tokens = static_cast<int>(fields.integer("prompt_tokens", 1, longest_text));
  workload.output_tokens = static_cast<int>(fields.integer("output_tokens", 1, longest_text));
  workload.sequences = integer_or(fields, "sequences", 1, most_sequences, 1);
  workload.rounds = integer_or(fields, "rounds", 1, most_rounds, 1);
  workload.round_prompt_tokens = integer_or(fields, "round_prompt_tokens", 0, longest_text / most_rounds, 0);
  workload.tool_gap_seconds = pause_or_none(fields, "tool_gap_seconds");
  const int most_pieces =
      is_noted(fields.place("prompt_tokens")) ? int{longest_text} : workload.prompt_tokens;
  workload.typed_pieces = integer_or(fields, "typed_pieces", 1, most_pieces, 1);
  workload.piece_gap_seconds = pause_or_none(fields, "piece_gap_seconds");
  if (fields.has("prewarmed")) workload.prewarmed = fields.flag("prewarmed");
  if (fields.has("poisson_arrivals")) workload.poisson_arrivals = fields.flag("poisson_arrivals");
  if (fields.has("arrivals_per_s")) {
    workload.arrivals_per_s = number_between(fields, "arrivals_per_s", 1e-6, 1e6);
    if (!workload.poisson_arrivals)
      refuse(fields.place("arrivals_per_s"), shown(fields.required("arrivals_per_s")),
             "it beside \"poisson_arrivals\": true, or left out");
  }
  if (fields.has("seed")) workload.seed = fields.unsigned_integer("seed");
  if (workload.rounds > 1 && workload.round_prompt_tokens == 0)
    refuse(fields.place("round_prompt_tokens"), "0 with " + std::to_string(workload.rounds) + " rounds",
           "1 or more");
  if (fields.has("slo")) workload.slo = slo_from_json(fields.object("slo"), fields.place("slo"));
  return workload;
}

}  // namespace moetune
