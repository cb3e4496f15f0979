// Milliseconds per decoded token and per prompt of a checkpoint on this machine.
//
//   decode_bench [checkpoint or preset] [prompt=128] [new=64] [sequences=1] [runs=9] [device=cuda]
//   [knob=value ...]
//
// Several sequences decode in step, and no prompt delays them: all of them are prefilled before. Prints
// medians over several runs; experts and KV cache are warm. Needs no calibration text: the ids are seeded.
// reports/h200/summary.py reads the line.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/generate.h"
#include "engine/option_rules.h"

namespace moetune {
namespace {

struct Lengths {
  int prompt = 128;
  int answer = 64;
  int sequences = 1;
  int runs = 9;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void bench(const std::string& directory, const EngineOptions& options, const Lengths& lengths) {
  Engine engine(open_checkpoint(directory), options,
                {.sequences = lengths.sequences,
                 .context_tokens = lengths.prompt + lengths.answer,
                 .step_tokens = std::max(lengths.prompt, lengths.sequences),
                 .logit_rows = lengths.sequences});
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> any_id(0, engine.spec().vocabulary - 1);
  std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(lengths.sequences));
  for (std::vector<std::int32_t>& prompt : prompts)
    for (int i = 0; i < lengths.prompt; ++i) prompt.push_back(any_id(random));
  std::vector<double> steps;
  std::vector<double> prefills;
  for (int run = 0; run < lengths.runs; ++run) {
    const Generated generated = generate(engine, prompts, lengths.answer,
                                         {.temperature = 1.0F, .seed = static_cast<std::uint64_t>(run)});
    if (run == 0) continue;  // warms up
    steps.insert(steps.end(), generated.step_seconds.begin(), generated.step_seconds.end());
    prefills.insert(prefills.end(), generated.prefill_seconds.begin(), generated.prefill_seconds.end());
  }
  const RunStats stats = engine.stats();
  std::printf(
      "%s, %d sequence%s: decode %.3f ms per step, prefill of %d tokens %.2f ms, device %.1f MiB, cache hits "
      "%.1f %%\n",
      directory.c_str(), lengths.sequences, lengths.sequences == 1 ? "" : "s", 1e3 * median(steps),
      lengths.prompt, 1e3 * median(prefills), static_cast<double>(stats.device_bytes) / (1 << 20),
      100.0 * stats.cache_hit());
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  try {
    moetune::DeviceKind device = moetune::DeviceKind::cpu;
    for (int i = 2; i < argc; ++i)
      if (std::string(argv[i]) == "device=cuda") device = moetune::DeviceKind::cuda;
    moetune::EngineOptions options = moetune::default_options(device);
    moetune::Lengths lengths;
    for (int i = 2; i < argc; ++i) {
      const std::string setting = argv[i];
      const std::size_t equals = std::min(setting.find('='), setting.size());
      const std::string name = setting.substr(0, equals);
      const std::string value = setting.substr(std::min(equals + 1, setting.size()));
      if (name == "prompt")
        lengths.prompt = std::stoi(value);
      else if (name == "new")
        lengths.answer = std::stoi(value);
      else if (name == "sequences")
        lengths.sequences = std::stoi(value);
      else if (name == "runs")
        lengths.runs = std::stoi(value);
      else if (name != "device")
        moetune::set_knob(options, name, value);
    }
    moetune::bench(argc > 1 ? argv[1] : "engine/models/tiny-moe", options, lengths);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
