// Configurations of one model side by side, in one process and over one pinned store, as lines of JSON: what
// remedies.py makes a table of.
//
//   cuda_remedies_bench MODEL NAME[:knob=value,sequences=1,rounds=1,prompt=64,new=128,runs=5] ...
//
// A line has the settings, times in ms with median, its 95 % interval, the 99th percentile and its interval
// where there are samples enough, and per step what the expert cache counted. A row that fails says why and
// does not end the others.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "moetune/build_info.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/cuda_decode_runs.h"
#include "tuner/statistics.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

using nlohmann::json;

struct Row {
  std::string name;
  bench::RunShape shape{.runs = 5};
  EngineOptions options = default_options(DeviceKind::cuda);
  json settings = json::object();
};

Row row_of(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  Row row{.name = text.substr(0, colon)};
  if (colon == text.size()) return row;
  for (const std::string& setting : bench::split(text.substr(colon + 1))) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw std::invalid_argument(row.name + ": '" + setting + "' is no setting");
    const std::string name = setting.substr(0, equals);
    const std::string value = setting.substr(equals + 1);
    row.settings[name] = value;
    if (name == "sequences")
      row.shape.sequences = std::stoi(value);
    else if (name == "rounds")
      row.shape.rounds = std::stoi(value);
    else if (name == "prompt")
      row.shape.prompt = std::stoi(value);
    else if (name == "new")
      row.shape.answer = std::stoi(value);
    else if (name == "runs")
      row.shape.runs = std::stoi(value);
    else
      set_knob(row.options, name, value);
  }
  return row;
}

json interval(const std::optional<Interval>& of) { return of ? json{of->low, of->high} : json(); }

// In the order they were taken in; neighbours may resemble each other.
json times(std::span<const double> in_order) {
  const std::optional<double> tail = p99(in_order);
  json made{{"n", in_order.size()},
            {"median", median(in_order)},
            {"median_interval", interval(median_of_series(in_order).interval)},
            {"mean", std::reduce(in_order.begin(), in_order.end()) / static_cast<double>(in_order.size())}};
  made["p99"] = tail ? json(*tail) : json();
  made["p99_interval"] = tail ? interval(quantile_interval(in_order, 0.99)) : json();
  return made;
}

json line_of(const std::string& model, const Row& row, const bench::DecodeRuns& runs) {
  return {{"row", row.name},
          {"model", model},
          {"settings", row.settings},
          {"sequences", row.shape.sequences},
          {"step_ms", times(runs.step_ms)},
          {"prompt_ms", times(runs.prompt_ms)},
          {"run_ms", times(runs.run_ms)},
          {"per_step",
           {{"hit_rate", runs.stats.cache_hit()},
            {"misses", runs.per_step(runs.stats.expert_misses)},
            {"missing_layers", runs.per_step(runs.stats.expert_missing_layers)},
            {"load_ms", runs.per_step(1e3 * runs.stats.expert_load_seconds)},
            {"host_waits", runs.per_step(runs.stats.host_waits)},
            {"ahead", runs.per_step(runs.stats.experts_ahead)},
            {"ahead_in_vain", runs.per_step(runs.stats.experts_ahead_in_vain)}}},
          {"device_bytes", runs.device_bytes},
          {"build", std::string(build_info::version) + " " + std::string(build_info::commit)}};
}

void bench_rows(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2)
    throw std::invalid_argument("a model and rows are missing; see the head of this file");
  const std::string& model = arguments.front();
  std::vector<Row> rows;
  for (std::size_t i = 1; i < arguments.size(); ++i) rows.push_back(row_of(arguments[i]));
  const auto checkpoint = open_checkpoint(model);
  std::optional<Engine> engine;
  for (const Row& row : rows) {
    try {
      const EngineLimits limits = row.shape.limits();
      if (!engine || !engine->reconfigure(row.options, limits)) {
        engine.reset();  // its memory first
        engine.emplace(checkpoint, row.options, limits);
      }
      std::puts(line_of(model, row, bench::decode_runs(*engine, row.shape)).dump().c_str());
    } catch (const std::exception& error) {
      std::puts(json{{"row", row.name}, {"model", model}, {"settings", row.settings}, {"error", error.what()}}
                    .dump()
                    .c_str());
      engine.reset();
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  return moetune::bench::run_main([&] { moetune::bench_rows({argv + 1, argv + argc}); });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
