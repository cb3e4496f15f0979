// Milliseconds per token of a model on a GPU whose expert cache holds less than all experts, against the
// resident model and what the misses took.
//
//   cuda_cache_size_bench MODEL sizes=1,0.5,0.25 [miss=pull,dma] [policy=layer_lru] [sequences=1]
//                         [prompt=512] [new=128] [runs=5] [knob=value ...]
//
// Means over the tokens of all runs but the first, which warms up; the median beside them. load: time of the
// misses of a token by the device's clock (pull) or of the host that brings them in (dma). expected: the
// resident model's own token + the sum over layers of what its misses cost (engine/miss_costs.h), measured by
// itself first and printed as costs per layer + per layer that misses + per miss. ahead, in vain: experts a
// token that a prefetch=... brought in; what it costs beside the layers is not in `expected`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/miss_costs.h"
#include "engine/option_rules.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/cuda_decode_runs.h"
#include "tuner/statistics.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

struct Asked {
  std::string model;
  std::vector<std::string> sizes{"1", "0.5"};
  std::vector<std::string> misses{"pull"};
  bench::RunShape shape{.prompt = 512, .runs = 5};
};

double mean(const std::vector<double>& values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

const char* name_of(MissHandling miss) {
  return miss == MissHandling::dma ? "dma" : miss == MissHandling::pull ? "pull" : "cpu";
}

void print_costs(const char* name, const MissCosts::Way& way) {
  std::printf("%-6s %.1f us a layer + %.1f a layer that misses + %.1f a miss", name, way.layer_us,
              way.missing_layer_us, way.miss_us);
  if (way.beside_us > 0.0) std::printf(", at least %.1f a layer that misses", way.beside_us);
  std::printf("\n");
}

void print(const std::string& miss, const std::string& size, MissHandling handling,
           const bench::DecodeRuns& found, double resident_ms, int layers,
           const std::optional<MissCosts>& costs) {
  const auto per_step = [&](auto sum) { return found.per_step(sum); };
  const RunStats& stats = found.stats;
  const StepMisses step{.layers = static_cast<double>(layers),
                        .missing_layers = per_step(stats.expert_missing_layers),
                        .misses = per_step(stats.expert_misses)};
  std::printf("%-6s %-8s %9.3f %9.3f %6.1f%% %9.2f %8.2f %9.3f", miss.c_str(), size.c_str(),
              mean(found.step_ms), median(found.step_ms), 100.0 * stats.cache_hit(), step.misses,
              step.missing_layers, per_step(1e3 * stats.expert_load_seconds));
  if (costs) {
    const double expected_ms = resident_ms + exposed_ms(costs->of(handling), step);
    std::printf(" %9.3f %+7.1f%%", expected_ms, 100.0 * (mean(found.step_ms) / expected_ms - 1.0));
  } else {
    std::printf(" %9s %8s", "-", "-");
  }
  std::printf(" %8.1f %9.2f %8.2f %8.2f\n", per_step(stats.host_waits),
              static_cast<double>(found.device_bytes) / 1073741824.0, per_step(stats.experts_ahead),
              per_step(stats.experts_ahead_in_vain));
}

void bench(const Asked& asked, EngineOptions options) {
  const EngineLimits limits = asked.shape.limits();
  const auto checkpoint = open_checkpoint(asked.model);
  const ModelSpec& spec = checkpoint->spec();
  const std::optional<MissCosts> costs = miss_costs_of(spec, options);
  std::printf("%s, %d sequences\n", asked.model.c_str(), asked.shape.sequences);
  if (costs)
    for (const MissHandling miss : {MissHandling::dma, MissHandling::pull, MissHandling::cpu})
      print_costs(name_of(miss), costs->of(miss));
  else
    std::printf("experts that may not be pinned: no costs of a miss\n");
  Engine engine(checkpoint, options, limits);
  const bench::DecodeRuns resident = decode_runs(engine, asked.shape);
  std::printf("resident: %.3f ms a token, median %.3f\n", mean(resident.step_ms), median(resident.step_ms));
  std::printf("%-6s %-8s %9s %9s %7s %9s %8s %9s %9s %8s %8s %9s %8s %8s\n", "miss", "size", "ms", "median",
              "hits", "misses", "layers", "load ms", "expected", "off by", "waits", "GiB", "ahead",
              "in vain");
  for (const std::string& miss : asked.misses)
    for (const std::string& size : asked.sizes) {
      set_knob(options, "miss", miss);
      set_knob(options, "expert_cache", size);
      if (!engine.reconfigure(options)) engine = Engine(checkpoint, options, limits);
      print(miss, size, options.miss, decode_runs(engine, asked.shape), mean(resident.step_ms),
            spec.moe_layer_count(), costs);
      std::fflush(stdout);
    }
}

void bench_asked(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw std::invalid_argument("a model is missing; see the head of this file");
  Asked asked{.model = arguments.front()};
  EngineOptions options = default_options(DeviceKind::cuda);
  for (const std::string& setting : std::vector(arguments.begin() + 1, arguments.end())) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string name = setting.substr(0, equals);
    const std::string value = setting.substr(std::min(equals + 1, setting.size()));
    if (name == "sizes")
      asked.sizes = bench::split(value);
    else if (name == "miss")
      asked.misses = bench::split(value);
    else if (name == "sequences")
      asked.shape.sequences = std::stoi(value);
    else if (name == "prompt")
      asked.shape.prompt = std::stoi(value);
    else if (name == "new")
      asked.shape.answer = std::stoi(value);
    else if (name == "runs")
      asked.shape.runs = std::stoi(value);
    else
      set_knob(options, name == "policy" ? "cache_policy" : name, value);
  }
  bench(asked, options);
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  return moetune::bench::run_main([&] { moetune::bench_asked({argv + 1, argv + argc}); });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
