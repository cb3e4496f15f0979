// Milliseconds per token of a model on a GPU whose expert cache holds less than all experts, against the
// resident model and what the misses took.
//
//   cuda_cache_size_bench MODEL sizes=1,0.5,0.25 [miss=pull,dma] [policy=layer_lru] [sequences=1]
//                         [prompt=512] [new=128] [runs=5] [knob=value ...]
//
// Medians over the tokens of all runs but the first. load: time of the misses of a token by the device's
// clock (pull) or of the host that brings them in (dma). expected (pull, dma): resident + per routed layer a
// lookup or a question to the host + per miss an expert's bytes over the link's rate for that many bytes,
// both measured by itself first. ahead, in vain: experts a token that a prefetch=... brought in; what it costs beside the layers
// is not in `expected`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/cuda_fetch.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

struct Asked {
  std::string model;
  std::vector<std::string> sizes{"1", "0.5"};
  std::vector<std::string> misses{"pull"};
  int sequences = 1;
  int prompt = 512;
  int answer = 128;
  int runs = 5;
};

struct Found {
  double token_ms = 0.0;
  RunStats stats;  // of the decoded tokens
  int steps = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void add(RunStats& sum, const RunStats& more) {
  sum.expert_hits += more.expert_hits;
  sum.expert_misses += more.expert_misses;
  sum.expert_bytes_read += more.expert_bytes_read;
  sum.expert_load_seconds += more.expert_load_seconds;
  sum.host_waits += more.host_waits;
  sum.experts_ahead += more.experts_ahead;
  sum.experts_ahead_in_vain += more.experts_ahead_in_vain;
}

Found decode(Engine& engine, const Asked& asked) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> any_id(0, engine.spec().vocabulary - 1);
  std::vector<double> steps;
  Found found;
  for (int run = 0; run < asked.runs; ++run) {
    std::vector<StepToken> first;
    for (int sequence = 0; sequence < asked.sequences; ++sequence) {
      std::vector<std::int32_t> prompt(static_cast<std::size_t>(asked.prompt));
      for (std::int32_t& id : prompt) id = any_id(random);
      engine.prefill(sequence, prompt);
      first.push_back({.id = any_id(random), .sequence = sequence, .position = asked.prompt});
    }
    engine.reset_stats();
    const Decoded decoded =
        engine.decode({.first = first,
                       .steps = asked.answer,
                       .sampling = {.temperature = 1.0F, .seed = static_cast<std::uint64_t>(run)}});
    if (run == 0) continue;  // warms up, and records graphs
    steps.insert(steps.end(), decoded.step_seconds.begin(), decoded.step_seconds.end());
    add(found.stats, engine.stats());
    found.steps += asked.answer;
  }
  found.token_ms = 1e3 * median(steps);
  found.stats.device_bytes = engine.stats().device_bytes;
  return found;
}

void bench(const Asked& asked, EngineOptions options) {
  const EngineLimits limits{.sequences = asked.sequences,
                            .context_tokens = asked.prompt + asked.answer,
                            .step_tokens = std::max(asked.prompt, asked.sequences),
                            .logit_rows = asked.sequences};
  const auto checkpoint = open_checkpoint(asked.model);
  const ModelSpec& spec = checkpoint->spec();
  const double layers = spec.moe_layer_count();
  bench::FetchBench fetch(15);
  const double lookup_us = fetch.lookup_us(spec.experts_per_token);
  const double question_us = fetch.question_us(spec.experts_per_token);
  const bench::FetchBench::FetchTime one = fetch.fetch_time(expert_bytes(spec, options), 1);
  Engine engine(checkpoint, options, limits);
  const double resident_ms = decode(engine, asked).token_ms;
  std::printf(
      "%s, %d sequences, resident: %.3f ms a token; by itself a lookup takes %.1f us, a question %.1f, an "
      "expert %.1f by dma, "
      "%.1f by pull\n",
      asked.model.c_str(), asked.sequences, resident_ms, lookup_us, question_us, one.dma_us, one.pull_us);
  std::printf("%-6s %-8s %9s %7s %9s %9s %9s %8s %8s %9s %8s %8s\n", "miss", "size", "ms", "hits", "misses",
              "load ms", "expected", "off by", "waits", "GiB", "ahead", "in vain");
  for (const std::string& miss : asked.misses)
    for (const std::string& size : asked.sizes) {
      set_knob(options, "miss", miss);
      set_knob(options, "expert_cache", size);
      if (!engine.reconfigure(options)) engine = Engine(checkpoint, options, limits);
      const Found found = decode(engine, asked);
      const auto per_step = [&](double sum) { return sum / found.steps; };
      const double load_ms = per_step(1e3 * found.stats.expert_load_seconds);
      const double misses = per_step(static_cast<double>(found.stats.expert_misses));
      std::printf("%-6s %-8s %9.3f %6.1f%% %9.2f %9.3f", miss.c_str(), size.c_str(), found.token_ms,
                  100.0 * found.stats.cache_hit(), misses, load_ms);
      if (miss == "cpu") {
        std::printf(" %9s %8s", "-", "-");
      } else {
        const double per_layer_us = miss == "pull" ? lookup_us : question_us;
        const double per_miss_us = miss == "pull" ? one.pull_us : one.dma_us;
        const double expected_ms = resident_ms + 1e-3 * (layers * per_layer_us + misses * per_miss_us);
        std::printf(" %9.3f %7.1f%%", expected_ms, 100.0 * (found.token_ms / expected_ms - 1.0));
      }
      std::printf(" %8.1f %9.2f %8.2f %8.2f\n", per_step(static_cast<double>(found.stats.host_waits)),
                  static_cast<double>(found.stats.device_bytes) / 1073741824.0,
                  per_step(static_cast<double>(found.stats.experts_ahead)),
                  per_step(static_cast<double>(found.stats.experts_ahead_in_vain)));
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
      asked.sequences = std::stoi(value);
    else if (name == "prompt")
      asked.prompt = std::stoi(value);
    else if (name == "new")
      asked.answer = std::stoi(value);
    else if (name == "runs")
      asked.runs = std::stoi(value);
    else
      set_knob(options, name == "policy" ? "cache_policy" : name, value);
  }
  bench(asked, options);
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  return moetune::bench::run_main([&] {
    moetune::bench_asked({argv + 1, argv + argc});
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
